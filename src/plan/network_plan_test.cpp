#include "plan/example_spec_test_support.h"
#include "plan/filter/filter_evaluate_test_support.h"
#include "plan/filter/filter_rules.h"
#include "plan/landlock.h"
#include "plan/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <linux/seccomp.h>
#include <sys/socket.h>

namespace glovebox::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LaunchPlan plan_with(const std::vector<std::string>& allowed,
                     const host::HostFacts& facts = root_host()) {
  SandboxSpec spec = command();
  allow(spec, allowed);
  auto plan = make_plan(spec, facts);
  EXPECT_TRUE(plan) << plan.error().message;
  return *std::move(plan);
}

// The calls that wait for the broker, with arguments of zero.
std::vector<std::string_view> notified(const LaunchPlan& plan) {
  std::vector<std::string_view> names;
  for (const SyscallRule& rule : default_filter_rules().syscalls) {
    seccomp_data data{};
    data.nr = static_cast<int>(rule.number);
    data.arch = audit_architecture(kNativeArchitecture);
    if (evaluate_filter(plan.filter, data) == SECCOMP_RET_USER_NOTIF) names.push_back(rule.name);
  }
  return names;
}

bool has_step(const LaunchPlan& plan, Op op) {
  return std::ranges::find(plan.box, op, &Step::op) != plan.box.end();
}

Step filter_step(const LaunchPlan& plan) {
  const auto step = std::ranges::find(plan.box, Op::InstallFilter, &Step::op);
  return step == plan.box.end() ? Step{} : *step;
}

std::uint64_t tcp_rights(const LaunchPlan& plan) {
  return std::ranges::find(plan.box, Op::LandlockBegin, &Step::op)->b & 0xffffffffU;
}

TEST(NetworkPlan, ABoxWithoutGrantsPaysNothing) {
  for (const std::vector<std::string>& terms :
       {std::vector<std::string>{}, {"listen=127.0.0.1:8000"}, {"connections=4"}}) {
    const LaunchPlan plan = plan_with(terms);
    EXPECT_FALSE(plan.network);
    EXPECT_TRUE(notified(plan).empty());
    EXPECT_EQ(plan.filter.size(), compile_filter(default_filter_rules()).size());
    EXPECT_EQ(filter_step(plan), (Step{Op::InstallFilter, 0}));
    EXPECT_FALSE(has_step(plan, Op::OpenResolver));
    EXPECT_EQ(tcp_rights(plan), 0U);
  }
}

TEST(NetworkPlan, ConnectionsAndListenersWait) {
  for (const char* term : {"connect=192.0.2.1:443", "listen=0.0.0.0:80"}) {
    EXPECT_THAT(notified(plan_with({term})),
                ElementsAre("connect", "sendmsg", "bind", "listen", "sendmmsg"))
        << term;
  }
  EXPECT_THAT(notified(plan_with({"connect=192.0.2.1:443"}, user_host())),
              ElementsAre("connect", "sendmsg", "bind", "listen", "sendmmsg"));
}

TEST(NetworkPlan, TheBoxsOwnTasksGetNoTcp) {
  for (const char* term : {"connect=192.0.2.1:443", "listen=0.0.0.0:80"}) {
    EXPECT_EQ(tcp_rights(plan_with({term})), landlock::kConnectTcp | landlock::kBindTcp) << term;
  }
}

TEST(NetworkPlan, FastOpenByMessageIsRefused) {
  const LaunchPlan plan = plan_with({"connect=192.0.2.1:443"});
  const std::pair<const char*, std::size_t> calls[] = {
      {"sendto", 3}, {"sendmsg", 2}, {"sendmmsg", 3}};
  for (const auto& [name, argument] : calls) {
    seccomp_data data{};
    data.nr = static_cast<int>(default_filter_rules().find(name)->number);
    data.arch = audit_architecture(kNativeArchitecture);
    data.args[argument] = MSG_NOSIGNAL;
    EXPECT_EQ(evaluate_filter(plan.filter, data), SECCOMP_RET_ALLOW) << name;
    data.args[argument] = MSG_FASTOPEN | MSG_NOSIGNAL;
    EXPECT_EQ(evaluate_filter(plan.filter, data), seccomp_action(Verdict::refuse(EOPNOTSUPP)))
        << name;
  }
}

TEST(NetworkPlan, OnlyDatagramsWithAnAddressWait) {
  seccomp_data data{};
  data.nr = static_cast<int>(default_filter_rules().find("sendto")->number);
  data.arch = audit_architecture(kNativeArchitecture);
  const LaunchPlan plan = plan_with({"connect=192.0.2.1:443"});
  EXPECT_EQ(evaluate_filter(plan.filter, data), SECCOMP_RET_ALLOW);
  for (const std::uint64_t pointer : {std::uint64_t{1}, std::uint64_t{1} << 40U}) {
    data.args[4] = pointer;
    EXPECT_EQ(evaluate_filter(plan.filter, data), SECCOMP_RET_USER_NOTIF);
    EXPECT_EQ(evaluate_filter(plan_with({}).filter, data), SECCOMP_RET_ALLOW)
        << "a box without grants waits for nobody";
  }
}

// Their address is in memory, so it takes the broker to see that there is none. Writers to streams
// say that they are such, and the box's own agent is one.
TEST(NetworkPlan, MessagesWaitUnlessTheyAreOfAStream) {
  const LaunchPlan plan = plan_with({"connect=192.0.2.1:443"});
  for (const auto& [name, argument] : {std::pair("sendmsg", 2U), std::pair("sendmmsg", 3U)}) {
    seccomp_data data{};
    data.nr = static_cast<int>(default_filter_rules().find(name)->number);
    data.arch = audit_architecture(kNativeArchitecture);
    for (const std::uint64_t flags :
         {std::uint64_t{0}, std::uint64_t{MSG_DONTWAIT}, std::uint64_t{1} << 40U}) {
      data.args[argument] = flags;
      EXPECT_EQ(evaluate_filter(plan.filter, data), SECCOMP_RET_USER_NOTIF) << name << flags;
      EXPECT_EQ(evaluate_filter(plan_with({}).filter, data), SECCOMP_RET_ALLOW) << name << flags;
    }
    data.args[argument] = MSG_NOSIGNAL | MSG_DONTWAIT;
    EXPECT_EQ(evaluate_filter(plan.filter, data), SECCOMP_RET_ALLOW) << name;
  }
}

TEST(NetworkPlan, NamesBringAResolver) {
  EXPECT_FALSE(has_step(plan_with({"connect=192.0.2.1:443"}), Op::OpenResolver));
  for (const char* term : {"connect=a.example:443", "connect=*:443", "resolve=a.example"}) {
    EXPECT_TRUE(has_step(plan_with({term}), Op::OpenResolver)) << term;
  }
  SandboxSpec spec = command();
  allow(spec, {"connect=a.example:443"});
  spec.loopback = Loopback::Down;
  const auto refused = make_plan(spec, root_host());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("connect=a.example:443"));
}

TEST(NetworkPlan, FilesForNamesGoWhereProgramsLook) {
  host::HostFacts facts = root_host();
  facts.name_files = {{"/etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf"},
                      {"/etc/hosts", ""}};
  const NameFiles files = plan_name_files(command(), facts);
  ASSERT_EQ(files.files.size(), 2U);
  EXPECT_EQ(files.files[0].path, "run/systemd/resolve/stub-resolv.conf");
  EXPECT_THAT(files.files[0].text, HasSubstr("nameserver 127.0.0.1"));
  EXPECT_THAT(files.files[1].text, HasSubstr("127.0.1.1 box"));
  EXPECT_THAT(files.covers, ElementsAre(Step{Op::AttachCover, 0, 0, "names/hosts", "etc/hosts"}));
  facts.name_files = {{"/etc/resolv.conf", "/somewhere/else"}};
  EXPECT_TRUE(plan_name_files(command(), facts).files.empty()) << "they ask 127.0.0.1 then";
}

TEST(NetworkPlan, TermsSayThatTheBrokerEnforcesThem) {
  const LaunchPlan plan = plan_with({"connect=a.example:443", "connections=4"});
  ASSERT_EQ(plan.terms.size(), 2U);
  EXPECT_EQ(plan.terms[0].by, "connect broker");
  EXPECT_EQ(plan.terms[1].by, "connect broker");
}

Workspace workspace(WorkspaceMode mode, std::string inside = "") {
  Workspace made{{.path = "/srv", .kind = host::PathKind::Directory, .device = 1, .inode = 2},
                 mode};
  made.inside = std::move(inside);
  return made;
}

LaunchPlan plan_of(const SandboxSpec& spec) {
  auto plan = make_plan(spec, root_host());
  EXPECT_TRUE(plan) << plan.error().message;
  return *std::move(plan);
}

bool is_guarded(const LaunchPlan& plan) { return plan.network && plan.network->guards_sockets(); }

TEST(SocketGuard, ADirectoryOfTheHostNeedsIt) {
  for (const char* term : {"read=/srv", "write=/srv"}) {
    for (const host::HostFacts& facts : {root_host(), user_host()}) {
      const LaunchPlan plan = plan_with({term}, facts);
      ASSERT_TRUE(is_guarded(plan)) << term;
      EXPECT_FALSE(plan.network->reaches_out());
      EXPECT_THAT(notified(plan), ElementsAre("connect", "listen"));
      EXPECT_EQ(filter_step(plan), (Step{Op::InstallFilter, 1}));
      EXPECT_EQ(tcp_rights(plan), 0U) << "its own calls bind";
      EXPECT_THAT(plan.network->socket_places, ElementsAre("/tmp", "/run", "/home"));
    }
  }
  for (const WorkspaceMode mode : {WorkspaceMode::Read, WorkspaceMode::Write}) {
    SandboxSpec spec = command();
    spec.workspaces = {workspace(mode)};
    EXPECT_TRUE(is_guarded(plan_of(spec)));
  }
}

TEST(SocketGuard, WhatShowsNoSocketOfTheHostDoesNot) {
  EXPECT_FALSE(is_guarded(plan_with({"read=/usr/share", "read=/srv/file.txt"})));
  EXPECT_FALSE(is_guarded(plan_with({"unix=/run/db.sock"}))) << "the socket alone is there";
  SandboxSpec overlay = command();
  overlay.workspaces = {workspace(WorkspaceMode::Discard)};
  EXPECT_FALSE(is_guarded(plan_of(overlay)));
  deny(overlay, {"write=/srv"});
  EXPECT_TRUE(is_guarded(plan_of(overlay))) << "shown as it is";
  SandboxSpec waived = command();
  waived.waived.insert("host-sockets");
  allow(waived, {"read=/srv"});
  EXPECT_FALSE(plan_of(waived).network);
}

TEST(SocketGuard, ADenialOfTheSystemsSocketsNeedsIt) {
  SandboxSpec spec = command();
  deny(spec, {"unix=/usr/local"});
  EXPECT_TRUE(is_guarded(plan_of(spec)));
  SandboxSpec covered = command();
  deny(covered, {"read=/usr/local", "write=/usr/local", "exec=/usr/local", "unix=/usr/local"});
  EXPECT_FALSE(is_guarded(plan_of(covered)));
}

TEST(SocketGuard, KnowsThePlacesWhoseSocketsAreTheBoxs) {
  SandboxSpec spec = command();
  spec.workspaces = {workspace(WorkspaceMode::Discard)};
  allow(spec, {"write=/tmp", "read=/data", "unix=/data/a.sock", "read=/open", "unix=/open"});
  const LaunchPlan plan = plan_of(spec);
  ASSERT_TRUE(is_guarded(plan));
  EXPECT_THAT(plan.network->socket_places,
              ElementsAre("/run", "/home", "/data/a.sock", "/open", "/srv"))
      << "/tmp is the host's";
  SandboxSpec moved = command();
  moved.workspaces = {workspace(WorkspaceMode::Write, "/work")};
  const LaunchPlan elsewhere = plan_of(moved);
  ASSERT_TRUE(is_guarded(elsewhere));
  EXPECT_THAT(elsewhere.network->moved, ElementsAre(MovedTree{"/work", "/srv"}));
}

TEST(SocketGuard, UnixDatagramSocketsWaitForTheBroker) {
  seccomp_data data{};
  data.arch = audit_architecture(kNativeArchitecture);
  const LaunchPlan guarded = plan_with({"read=/srv"});
  const LaunchPlan both = plan_with({"read=/srv", "connect=192.0.2.1:443"});
  const LaunchPlan open = plan_with({"connect=192.0.2.1:443"});
  for (const char* name : {"socket", "socketpair"}) {
    data.nr = static_cast<int>(default_filter_rules().find(name)->number);
    for (const std::uint64_t flags : {std::uint64_t{0}, std::uint64_t{SOCK_CLOEXEC},
                                      std::uint64_t{SOCK_NONBLOCK}, std::uint64_t{1} << 40U}) {
      data.args[0] = AF_UNIX | std::uint64_t{1} << 40U;  // the kernel reads 32 bits
      data.args[1] = SOCK_DGRAM | flags;
      EXPECT_EQ(evaluate_filter(guarded.filter, data), SECCOMP_RET_USER_NOTIF) << name;
      EXPECT_EQ(evaluate_filter(both.filter, data), SECCOMP_RET_USER_NOTIF) << name;
      EXPECT_EQ(evaluate_filter(open.filter, data), SECCOMP_RET_ALLOW) << name;
      data.args[1] = SOCK_STREAM | flags;
      EXPECT_EQ(evaluate_filter(guarded.filter, data), SECCOMP_RET_ALLOW) << name;
    }
  }
  data.nr = static_cast<int>(default_filter_rules().find("socket")->number);
  data.args[0] = AF_INET;
  data.args[1] = SOCK_DGRAM;
  EXPECT_EQ(evaluate_filter(guarded.filter, data), SECCOMP_RET_ALLOW);
}

}  // namespace
}  // namespace glovebox::plan
