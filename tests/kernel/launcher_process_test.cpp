// Boxes started by a launcher process: each is as sealed as one started by the command, none sees
// anything of another, and none outlives the launcher or leaves anything.

#include "authority/terms.h"
#include "base/file.h"
#include "host/facts.h"
#include "host/resolve_authority.h"
#include "launch/child/init_message.h"
#include "launch/launcher_client.h"
#include "plan/make_plan.h"
#include "support/outer_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::launch {
namespace {

constexpr int kPatienceMs = 20'000;
constexpr int kMeasuredMs = 400;
constexpr int kMostTries = 400;
constexpr int kPauseMs = 25;
constexpr std::size_t kPooledCgroups = 12;  // two controllers, six ahead

std::string launcher_program() {
  const char* path = std::getenv("GLOVEBOX_LAUNCHER");
  return path == nullptr ? "glovebox-launcher" : path;
}

plan::LaunchPlan plan_for(std::vector<std::string> command,
                          const std::function<void(plan::SandboxSpec&)>& change = {}) {
  plan::SandboxSpec spec;
  spec.command = std::move(command);
  if (change) change(spec);
  const auto facts = host::read_facts();
  EXPECT_TRUE(facts);
  auto plan = plan::make_plan(spec, *facts);
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().message);
  return *std::move(plan);
}

struct Ended {
  MessageKind last = MessageKind::StepFailed;
  int code = -1;
  std::string output;
};

// Follows a box to its end, with its output.
Ended follow(const RemoteBox& box, const UniqueFd& output) {
  Ended ended;
  while (true) {
    pollfd wait{box.status.get(), POLLIN, 0};
    if (::poll(&wait, 1, kPatienceMs) <= 0) return ended;
    Message message{};
    const ssize_t size = ::recv(box.status.get(), &message, sizeof(message), 0);
    if (size != sizeof(message)) break;
    ended.last = message.kind;
    if (message.kind == MessageKind::Exited) ended.code = WEXITSTATUS(message.wait_status);
    if (message.kind != MessageKind::Started) break;
  }
  const auto text = read_fd(output, 1 << 20);
  if (text) ended.output = *text;
  return ended;
}

// A number of /proc/PID/status, such as "VmRSS:".
std::uint64_t status_number(pid_t pid, const std::string& key) {
  const auto text = read_file(fmt::format("/proc/{}/status", pid));
  EXPECT_TRUE(text);
  const std::size_t at = text ? text->find(key) : std::string::npos;
  EXPECT_NE(at, std::string::npos) << key;
  return at == std::string::npos ? 0 : std::strtoull(text->c_str() + at + key.size(), nullptr, 10);
}

// Processor time of a process so far.
std::uint64_t cpu_ms(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/schedstat", pid));
  EXPECT_TRUE(text);
  return text ? std::strtoull(text->c_str(), nullptr, 10) / 1'000'000 : 0;
}

// Whether a parked box has come to where it waits: in a call that reads from its socket. An
// ordinary user cannot look into it, and sees only that it sleeps.
bool is_waiting(pid_t pid) {
  if (const auto call = read_file(fmt::format("/proc/{}/syscall", pid))) {
    return call->starts_with(fmt::format("{} ", SYS_recvmsg));
  }
  const auto status = read_file(fmt::format("/proc/{}/status", pid));
  return status && status->find("State:\tS") != std::string::npos;
}

// What init itself works with: its socket, its cgroup, the launcher's pidfd, its private tmpfs.
bool is_own_file(const std::string& file) {
  return file == "/dev/null" || file.starts_with("socket:[") || file.ends_with("/tasks") ||
         file == "anon_inode:[pidfd]" || file.starts_with("pidfd:") || file == "/tmp";
}

void kill_and_wait(pid_t pid) {
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  ASSERT_TRUE(handle);
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  pollfd wait{handle.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&wait, 1, kPatienceMs), 1);
}

// Directories of one launcher's boxes and pools, below where this plan's cgroups are made.
std::size_t box_cgroups(const plan::LaunchPlan& plan, pid_t launcher) {
  const std::string prefix = fmt::format("glovebox-{}-", launcher);
  std::size_t count = 0;
  for (const plan::Controller& controller : plan.cgroup.controllers) {
    for (const auto& entry : std::filesystem::directory_iterator(controller.parent)) {
      if (entry.path().filename().string().starts_with(prefix)) ++count;
    }
  }
  return count;
}

// No connect broker serves the boxes of this test: what it would guard is given up.
void hand_in(plan::SandboxSpec& spec, const std::string& term) {
  spec.waived.insert("host-sockets");
  const authority::Capability capability = *authority::parse_term(term);
  auto resolved =
      host::resolve_paths(*authority::AuthoritySet::granting(std::span(&capability, 1)));
  spec.authority = spec.authority.unite(resolved->set);
  spec.paths.merge(resolved->paths);
}

// Whether these words are anywhere in what a process may write to.
bool holds_in_memory(pid_t pid, const std::string& words) {
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  std::ifstream memory(fmt::format("/proc/{}/mem", pid), std::ios::binary);
  EXPECT_TRUE(maps && memory) << "the memory of " << pid;
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx rw", &first, &end) != 2 ||
        line.find(" rw") == std::string::npos)
      continue;
    std::string bytes(end - first, '\0');
    memory.clear();
    memory.seekg(static_cast<std::streamoff>(first));
    memory.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (bytes.find(words) != std::string::npos) return true;
  }
  return false;
}

class LauncherProcess : public testing::Test {
 protected:
  void SetUp() override {
    auto client = LauncherClient::start(launcher_program());
    ASSERT_TRUE(client) << client.error().message;
    client_.emplace(*std::move(client));
  }

  Result<RemoteBox> start(const plan::LaunchPlan& plan, UniqueFd& output,
                          std::uint32_t keep_parked = 0) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    output = UniqueFd(ends[0]);
    const UniqueFd theirs(ends[1]);
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    return client_->start_box(plan, {null.get(), theirs.get(), theirs.get()}, keep_parked);
  }

  Ended run(const plan::LaunchPlan& plan) {
    UniqueFd output;
    auto box = start(plan, output);
    EXPECT_TRUE(box) << (box ? "" : box.error().message);
    if (!box) return {};
    Ended ended = follow(*box, output);
    EXPECT_TRUE(client_->await_end(box->id));
    return ended;
  }

  // The same in a box that waited for it; boxes are parked until there is one.
  Ended run_parked(const plan::LaunchPlan& plan, std::uint32_t keep = 1) {
    for (int i = 0; i < kMostTries; ++i) {
      UniqueFd output;
      auto box = start(plan, output, keep);
      EXPECT_TRUE(box) << (box ? "" : box.error().message);
      if (!box) return {};
      Ended ended = follow(*box, output);
      EXPECT_TRUE(client_->await_end(box->id));
      if (box->was_parked) return ended;
      pollfd nothing{-1, 0, 0};
      (void)::poll(&nothing, 1, kPauseMs);  // the launcher parks when it is not asked for anything
    }
    ADD_FAILURE() << "no box was parked";
    return {};
  }

  // The inits of all boxes.
  std::vector<pid_t> children() {
    const auto text = read_file(fmt::format("/proc/{0}/task/{0}/children", client_->pid()));
    EXPECT_TRUE(text);
    std::istringstream words(text ? *text : "");
    return {std::istream_iterator<pid_t>(words), {}};
  }

  // The inits of the boxes that wait, when the launcher has no other box.
  std::vector<pid_t> await_parked(std::size_t count) {
    for (int i = 0; i < kMostTries; ++i) {
      const std::vector<pid_t> pids = children();
      if (pids.size() == count && std::ranges::all_of(pids, is_waiting)) return pids;
      pollfd nothing{-1, 0, 0};
      (void)::poll(&nothing, 1, kPauseMs);
    }
    ADD_FAILURE() << "there are never " << count << " boxes parked";
    return {};
  }

  std::optional<LauncherClient> client_;
};

// What can be seen from inside that could differ between two ways of starting a box. The numbers
// that differ from box to box are left out.
constexpr const char* kLookAround =
    "grep -v -E 'ctxt|^Vm|^Rss|^Hugetlb|Pid|^NS|gid:.[0-9]*$' /proc/self/status; id; hostname; "
    "pwd; "
    "umask; ulimit -a; env | sort; cut -d' ' -f 4- /proc/self/mountinfo | sort; "
    "stat -c '%A %u %g %N' / /* /dev/* /tmp /run/* /home/* /var/*; "
    "ls -l /proc/self/fd | cut -c 1-10; "
    "cat /proc/self/cgroup /proc/1/cmdline /proc/self/uid_map /proc/self/setgroups; "
    "ls -l /proc/1/fd; grep -E 'Cap|Seccomp|NoNewPrivs|Groups|Threads' /proc/1/status; "
    // Through a file: how many processes a pipe has when the first one looks is chance.
    "cat /proc/net/dev; ls /proc > /tmp/seen; grep -c -E '^[0-9]+$' /tmp/seen; "
    "readlink /proc/self/exe";

std::string seen(const Ended& ended) {
  EXPECT_EQ(ended.last, MessageKind::Exited);
  EXPECT_GT(ended.output.size(), 1000u) << ended.output;
  // The uid outside is each box's own.
  return std::regex_replace(ended.output, std::regex("\\b19000[0-9]{5}\\b"), "UID");
}

TEST_F(LauncherProcess, RunsACommandAndReturnsItsCode) {
  const Ended ended = run(plan_for({"sh", "-c", "echo from inside; exit 7"}));
  EXPECT_EQ(ended.last, MessageKind::Exited);
  EXPECT_EQ(ended.code, 7);
  EXPECT_EQ(ended.output, "from inside\n");
}

TEST_F(LauncherProcess, BoxesAreSealed) {
  const Ended ended = run(plan_for(
      {"sh", "-c",
       "grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status; ls /; cat /etc/shadow; "
       "echo x > /usr/x; ls -A /home /root 2>&1; cat /proc/1/cmdline | tr '\\0' ' '"}));
  EXPECT_NE(ended.output.find("CapEff:\t0000000000000000"), std::string::npos) << ended.output;
  EXPECT_NE(ended.output.find("CapBnd:\t0000000000000000"), std::string::npos);
  EXPECT_NE(ended.output.find("NoNewPrivs:\t1"), std::string::npos);
  EXPECT_NE(ended.output.find("Seccomp:\t2"), std::string::npos);
  EXPECT_NE(ended.output.find("/etc/shadow: Permission denied"), std::string::npos);
  EXPECT_NE(ended.output.find("Read-only file system"), std::string::npos);
  EXPECT_EQ(ended.output.find("/tmp/glovebox-launcher-test"), std::string::npos);
}

// What a launcher under such a filter says to a request, and whether the command ran; in a process
// of its own, which keeps the filter.
class UnderFilter : public testing::TestWithParam<test::AnsweredCall> {
 protected:
  // 0: refused, or its box was; 1: a command ran; 2: no launcher can be asked.
  static int try_boxes(int keep_parked) {
    auto client = LauncherClient::start(launcher_program());
    if (!client) return 2;
    const plan::LaunchPlan plan = plan_for({"echo", "ran"});
    for (int i = 0; i < kTries; ++i) {
      std::array<int, 2> ends{};
      if (::pipe2(ends.data(), O_CLOEXEC) != 0) return 3;
      const UniqueFd output(ends[0]);
      UniqueFd theirs(ends[1]);
      const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
      auto box = client->start_box(plan, {null.get(), theirs.get(), theirs.get()},
                                   static_cast<std::uint32_t>(keep_parked));
      theirs.reset();
      if (box && !follow(*box, output).output.empty()) return 1;
    }
    return 0;
  }
  static constexpr int kTries = 8;
};

TEST_P(UnderFilter, NoBoxRunsWithoutItsWalls) {
  for (const int keep_parked : {0, 2}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::_exit(test::install_outer_filter({}, {GetParam()}) ? try_boxes(keep_parked) : 3);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    const int code = WEXITSTATUS(status);
    EXPECT_TRUE(code == 0 || code == 2) << code << " with " << keep_parked << " parked boxes";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Calls, UnderFilter,
    testing::Values(test::AnsweredCall{SYS_seccomp}, test::AnsweredCall{SYS_setns},
                    test::AnsweredCall{SYS_unshare}, test::AnsweredCall{SYS_clone3},
                    test::AnsweredCall{SYS_pivot_root}, test::AnsweredCall{SYS_umount2},
                    test::AnsweredCall{SYS_move_mount}, test::AnsweredCall{SYS_mount_setattr},
                    test::AnsweredCall{SYS_landlock_restrict_self}, test::AnsweredCall{SYS_capset},
                    test::AnsweredCall{SYS_close_range},
                    test::AnsweredCall{SYS_prctl, PR_CAPBSET_DROP},
                    test::AnsweredCall{SYS_prlimit64}));

TEST_F(LauncherProcess, ABoxSeesNothingOfTheOneBefore) {
  const std::string look =
      "cat /proc/net/dev | grep lo: | tr -s ' ' | cut -d' ' -f3; ls -A /tmp /run/shm | wc -l; "
      "grep -c . /proc/net/unix";
  const Ended before = run(plan_for({"sh", "-c", look}));
  const Ended busy = run(plan_for(
      {"python3", "-c",
       "import socket\n"
       "s = socket.socket(); s.bind(('127.0.0.1', 4242)); s.listen()\n"
       "c = socket.create_connection(('127.0.0.1', 4242)); a, _ = s.accept()\n"
       "c.sendall(b'x' * 100000); a.recv(1000)\n"
       "open('/tmp/secret', 'w').write('left'); open('/dev/shm/secret', 'w').write('left')\n"}));
  EXPECT_EQ(busy.code, 0) << busy.output;
  const Ended after = run(plan_for({"sh", "-c", look}));
  EXPECT_EQ(before.output, after.output);
}

TEST_F(LauncherProcess, GrantsOfOneBoxAreNotTheNexts) {
  std::string tree = std::filesystem::temp_directory_path() / "glovebox-grant-XXXXXX";
  ASSERT_NE(::mkdtemp(tree.data()), nullptr);
  const auto with = [&](plan::SandboxSpec& spec) { hand_in(spec, "write=" + tree); };
  EXPECT_EQ(run(plan_for({"sh", "-c", "echo kept > " + tree + "/file"}, with)).code, 0);
  EXPECT_EQ(*read_file(tree + "/file"), "kept\n");
  EXPECT_NE(run(plan_for({"cat", tree + "/file"})).code, 0);
  std::filesystem::remove_all(tree);
}

TEST_F(LauncherProcess, AReplacedTreeIsRefused) {
  std::string tree = std::filesystem::temp_directory_path() / "glovebox-swap-XXXXXX";
  ASSERT_NE(::mkdtemp(tree.data()), nullptr);
  const plan::LaunchPlan plan =
      plan_for({"true"}, [&](plan::SandboxSpec& spec) { hand_in(spec, "read=" + tree); });
  std::filesystem::rename(tree, tree + ".old");
  std::filesystem::create_directory_symlink("/etc", tree);
  UniqueFd output;
  EXPECT_FALSE(start(plan, output)) << "a link in its place";
  std::filesystem::remove(tree);
  std::filesystem::create_directory(tree);
  EXPECT_FALSE(start(plan, output)) << "another directory in its place";
  std::filesystem::remove(tree);
  std::filesystem::remove_all(tree + ".old");
  EXPECT_EQ(run(plan_for({"true"})).code, 0) << "the launcher goes on";
}

TEST_F(LauncherProcess, LimitsEndABoxByName) {
  if (!host::read_facts()->cgroups.has("memory")) GTEST_SKIP() << "no memory cgroup for this user";
  const plan::LaunchPlan plan =
      plan_for({"python3", "-c", "bytearray(200 << 20)"},
               [](plan::SandboxSpec& spec) { hand_in(spec, "memory=32MiB"); });
  UniqueFd output;
  const auto box = start(plan, output);
  ASSERT_TRUE(box);
  (void)follow(*box, output);
  const auto end = client_->await_end(box->id);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->limit, LimitKind::Memory);
}

TEST_F(LauncherProcess, AThousandBoxesLeaveNoGrowth) {
  const plan::LaunchPlan plan = plan_for({"true"});
  for (int i = 0; i < 100; ++i) ASSERT_EQ(run(plan).code, 0);
  const std::uint64_t memory = status_number(client_->pid(), "VmRSS:");
  const std::uint64_t files = status_number(client_->pid(), "FDSize:");
  const pid_t launcher = client_->pid();
  const std::size_t cgroups = box_cgroups(plan, launcher);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(run(plan).code, 0);
  EXPECT_LE(status_number(client_->pid(), "VmRSS:"), memory + 256) << "KiB";
  EXPECT_EQ(status_number(client_->pid(), "FDSize:"), files);
  EXPECT_LE(box_cgroups(plan, launcher), cgroups + kPooledCgroups);
  client_.reset();
  EXPECT_EQ(box_cgroups(plan, launcher), 0u) << "a launcher that ends takes its cgroups along";
}

// The client may keep the handle of a box that is gone; the launcher must have forgotten its own.
TEST_F(LauncherProcess, AnEndedBoxCostsTheLauncherNothing) {
  UniqueFd output;
  const auto box = start(plan_for({"true"}), output);
  ASSERT_TRUE(box) << box.error().message;
  EXPECT_EQ(follow(*box, output).code, 0);
  ASSERT_TRUE(client_->await_end(box->id));
  EXPECT_EQ(run(plan_for({"true"})).code, 0);
  const std::uint64_t before = cpu_ms(client_->pid());
  pollfd nothing{-1, 0, 0};
  EXPECT_EQ(::poll(&nothing, 1, kMeasuredMs), 0);  // the time that is measured
  EXPECT_LT(cpu_ms(client_->pid()) - before, kMeasuredMs / 2);
}

TEST_F(LauncherProcess, BoxesRunAtTheSameTime) {
  const plan::LaunchPlan plan = plan_for({"true"});
  std::vector<UniqueFd> outputs(20);
  std::vector<RemoteBox> boxes;
  for (UniqueFd& output : outputs) {
    auto box = start(plan, output);
    ASSERT_TRUE(box) << box.error().message;
    boxes.push_back(*std::move(box));
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    EXPECT_EQ(follow(boxes[i], outputs[i]).code, 0);
    EXPECT_TRUE(client_->await_end(boxes[i].id));
  }
}

TEST_F(LauncherProcess, KillingTheLauncherEndsItsBoxes) {
  UniqueFd output;
  const auto box = start(plan_for({"sleep", "1000"}), output);
  ASSERT_TRUE(box);
  ASSERT_EQ(::kill(client_->pid(), SIGKILL), 0);
  pollfd wait{box->init.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, kPatienceMs), 1) << "init is still there";
}

TEST_F(LauncherProcess, AParkedBoxIsLikeAnyOther) {
  const plan::LaunchPlan plan = plan_for({"sh", "-c", kLookAround});
  const std::string cold = seen(run(plan));
  EXPECT_EQ(seen(run_parked(plan)), cold);
}

TEST_F(LauncherProcess, AParkedBoxGetsTheGrantsOfItsOwnPlanAlone) {
  std::string directory = "/tmp/glovebox-parked-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string note = directory + "/note";
  const plan::LaunchPlan with =
      plan_for({"sh", "-c", fmt::format("{}; echo written > {}", kLookAround, note)},
               [&](plan::SandboxSpec& spec) { hand_in(spec, "write=" + directory); });
  const std::string cold = seen(run(with));
  std::filesystem::remove(note);
  EXPECT_EQ(seen(run_parked(with)), cold);
  EXPECT_TRUE(std::filesystem::exists(note));
  std::filesystem::remove_all(directory);
  // The tree that the boxes in the pool were begun for is gone: no request gets it from one of
  // them.
  UniqueFd output;
  EXPECT_FALSE(start(with, output, 1));
  EXPECT_EQ(run_parked(plan_for({"ls", "-d", directory})).code, 2);
}

TEST_F(LauncherProcess, AParkedBoxHoldsNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can look into a box's init";
  for (const bool has_tree : {false, true}) {
    const plan::LaunchPlan plan = plan_for({"true"}, [&](plan::SandboxSpec& spec) {
      if (has_tree) hand_in(spec, "read=/var/lib");
    });
    (void)run_parked(plan);
    for (const pid_t pid : await_parked(has_tree ? 2 : 1)) {
      for (const auto& entry :
           std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid))) {
        const std::string file = std::filesystem::read_symlink(entry.path());
        EXPECT_TRUE(is_own_file(file))
            << "descriptor " << entry.path().filename() << " is " << file;
      }
      const auto mounts = read_file(fmt::format("/proc/{}/mountinfo", pid));
      ASSERT_TRUE(mounts);
      EXPECT_EQ(mounts->find("/var/lib"), std::string::npos) << *mounts;
      const auto children = read_file(fmt::format("/proc/{0}/task/{0}/children", pid));
      ASSERT_TRUE(children);
      EXPECT_EQ(*children, "") << "nobody's code runs in it";
    }
  }
}

TEST_F(LauncherProcess, NoBoxHasWordsOfAnothersRequestInItsMemory) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can look into a box's init";
  const std::string canary = "kept-apart-" + std::to_string(::getpid());
  const auto plan_with = [&](const std::string& term) {
    return plan_for({"sh", "-c", "exit 0", canary},
                    [&](plan::SandboxSpec& spec) { hand_in(spec, term + canary); });
  };
  (void)run_parked(plan_with("env=CANARY="));
  (void)run(plan_with("env=CANARY=" + std::string(100'000, 'x')));  // it comes as a file
  (void)await_parked(1);
  UniqueFd output;
  auto box = start(plan_for({"sleep", "1000"}), output);
  ASSERT_TRUE(box) << box.error().message;
  std::vector<pid_t> others = children();
  others.push_back(client_->pid());
  ASSERT_GE(others.size(), 3U) << "one that is parked, one that sleeps, the launcher";
  for (const pid_t pid : others) {
    EXPECT_FALSE(holds_in_memory(pid, canary))
        << read_file(fmt::format("/proc/{}/comm", pid)).value_or("");
  }
  EXPECT_TRUE(holds_in_memory(::getpid(), canary)) << "it would be found where it is";
}

TEST_F(LauncherProcess, AParkedBoxThatDiesIsPutAway) {
  const plan::LaunchPlan plan = plan_for({"true"});
  (void)run_parked(plan);
  const std::vector<pid_t> before = await_parked(1);
  ASSERT_EQ(before.size(), 1u);
  kill_and_wait(before.front());
  EXPECT_EQ(run(plan).code, 0);
  const std::vector<pid_t> after = await_parked(1);
  EXPECT_NE(after, before) << "another one takes its place";
  EXPECT_EQ(run_parked(plan).code, 0);
}

TEST_F(LauncherProcess, ThoseWhoseBoxesKeepDyingAreNotMadeForEver) {
  const plan::LaunchPlan plan = plan_for({"true"});
  (void)run_parked(plan);
  for (std::uint32_t i = 0; i < ParkedBoxes::kMaxLosses; ++i) {
    for (const pid_t pid : await_parked(1)) kill_and_wait(pid);
  }
  (void)await_parked(0);
  EXPECT_EQ(run_parked(plan).code, 0) << "until somebody asks again";
}

TEST_F(LauncherProcess, WhoComesTooLateForAParkedBoxGetsAnother) {
  constexpr std::uint32_t kKept = 3;
  constexpr std::size_t kAsked = 12;
  const plan::LaunchPlan plan = plan_for({"true"});
  for (int round = 0; round < 6; ++round) {
    std::vector<RemoteBox> boxes;
    std::vector<UniqueFd> outputs(kAsked);
    for (UniqueFd& output : outputs) {
      auto box = start(plan, output, kKept);
      ASSERT_TRUE(box) << box.error().message;
      boxes.push_back(*std::move(box));
    }
    for (std::size_t i = 0; i < kAsked; ++i) EXPECT_EQ(follow(boxes[i], outputs[i]).code, 0);
    for (const RemoteBox& box : boxes) EXPECT_TRUE(client_->await_end(box.id));
    EXPECT_LE(client_->parked().parked, kKept);
  }
  EXPECT_EQ(await_parked(kKept).size(), kKept) << "as many as were asked for, and no more";
  const pid_t launcher = client_->pid();
  client_.reset();
  EXPECT_EQ(box_cgroups(plan, launcher), 0u) << "parked boxes leave nothing";
}

TEST_F(LauncherProcess, ParkedBoxesEndWithTheLauncher) {
  const plan::LaunchPlan plan = plan_for({"true"});
  (void)run_parked(plan);
  const std::vector<pid_t> parked = await_parked(1);
  ASSERT_EQ(parked.size(), 1u);
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, parked.front(), 0)));
  ASSERT_TRUE(handle);
  ASSERT_EQ(::kill(client_->pid(), SIGKILL), 0);
  pollfd wait{handle.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, kPatienceMs), 1) << "a parked box is still there";
}

}  // namespace
}  // namespace glovebox::launch
