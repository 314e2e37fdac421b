#include "plan/make_plan.h"

#include "plan/example_spec_test_support.h"
#include "plan/flat_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace glovebox::plan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> texts(const std::vector<Step>& steps) {
  std::vector<std::string> lines;
  lines.reserve(steps.size());
  for (const Step& step : steps) lines.push_back(to_text(step));
  return lines;
}

std::size_t index_of(const std::vector<Step>& steps, Op op) {
  const auto found =
      std::find_if(steps.begin(), steps.end(), [&](const Step& step) { return step.op == op; });
  return static_cast<std::size_t>(found - steps.begin());
}

TEST(MakePlan, SystemIsAttachedSealed) {
  const auto plan = make_plan(command(), root_host());
  ASSERT_TRUE(plan);
  EXPECT_THAT(texts(plan->base), Contains("attach-host        /usr at /usr (ro,nosuid,nodev)"));
  EXPECT_THAT(texts(plan->base), Contains("attach-host        /etc at /etc (ro,nosuid,nodev)"));
  EXPECT_THAT(texts(plan->base), Contains("make-link          /bin -> usr/bin"));
  EXPECT_EQ(plan->base.back().op, Op::PivotRoot);
}

TEST(MakePlan, NothingOfTheHostIsThereUnlessNamed) {
  const auto plan = make_plan(command(), root_host());
  for (const Step& step : plan->base) {
    if (step.op != Op::AttachHost) continue;
    EXPECT_THAT((std::vector<std::string>{"/usr", "/etc", "/proc", "/dev/null", "/dev/zero",
                                          "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}),
                Contains(step.text));
  }
}

TEST(MakePlan, WallsComeAfterMountsAndFilterIsLast) {
  const auto plan = make_plan(command(), root_host());
  const std::size_t caps = index_of(plan->box, Op::DropCapabilities);
  EXPECT_LT(index_of(plan->box, Op::MountProc), caps);
  EXPECT_LT(caps, index_of(plan->box, Op::NoNewPrivileges));
  EXPECT_LT(index_of(plan->box, Op::NoNewPrivileges), index_of(plan->box, Op::LandlockEnforce));
  // The filter is the last wall, and only the look at it comes after.
  EXPECT_EQ(index_of(plan->box, Op::InstallFilter), plan->box.size() - 2);
  EXPECT_EQ(plan->box.back(), (Step{Op::VerifyWall, static_cast<std::uint64_t>(Wall::Filter)}));
}

TEST(MakePlan, WorkspaceIsAttachedAtItsOwnPath) {
  SandboxSpec spec = command();
  spec.workspaces = {
      {{.path = "/home/alice/project", .kind = host::PathKind::Directory, .device = 1, .inode = 2},
       WorkspaceMode::Write}};
  const auto plan = make_plan(spec, root_host());
  ASSERT_TRUE(plan);
  const auto lines = texts(plan->box);
  EXPECT_THAT(lines, Contains("make-directory     private:home/alice (0755)"));
  EXPECT_THAT(lines, Contains("make-directory     private:home/alice/project (0755)"));
  EXPECT_THAT(lines, Contains("attach-tree        /home/alice/project (rw,nosuid,nodev)"));
  EXPECT_THAT(lines, Contains("change-directory   /home/alice/project"));
}

TEST(MakePlan, ReadGrantsAreSealedAndGetNoWriteRule) {
  SandboxSpec spec = command();
  allow(spec, {"read=/data/in"});
  const auto plan = make_plan(spec, root_host());
  ASSERT_TRUE(plan);
  const auto lines = texts(plan->box);
  EXPECT_THAT(lines, Contains("attach-tree        /data/in (ro,nosuid,nodev)"));
  EXPECT_THAT(lines, Contains("landlock-allow     /data/in 0xd"));
  EXPECT_THAT(texts(plan->base), Contains("make-directory     /data (0755)"));
}

TEST(MakePlan, NestedGrantsNeedNoMountPointAndComeAfterTheirParent) {
  SandboxSpec spec = command();
  allow(spec, {"read=/a/b", "write=/a/b/c"});
  const auto plan = make_plan(spec, root_host());
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->trees.size(), 2u);
  EXPECT_EQ(plan->trees[0].source.path, "/a/b");
  EXPECT_EQ(plan->trees[1].source.path, "/a/b/c");
  EXPECT_THAT(texts(plan->box), Not(Contains("make-directory     private:a/b/c (0755)")));
}

TEST(MakePlan, GrantsInsideAGrantThatAddNothingAreNotMountedTwice) {
  SandboxSpec spec = command();
  allow(spec, {"write=/a/b", "read=/a/b/c"});
  EXPECT_EQ(make_plan(spec, root_host())->trees.size(), 1u);
}

TEST(MakePlan, RefusesTreesThatAreTheBoxsOwn) {
  for (const char* path : {"/", "/proc", "/proc/sys", "/dev", "/sys/fs"}) {
    SandboxSpec spec = command();
    allow(spec, {fmt::format("read={}", path)});
    EXPECT_EQ(make_plan(spec, root_host()).error().code, Code::Denied) << path;
  }
}

TEST(MakePlan, AskedLimitsThatCannotBeEnforcedAreRefusedByName) {
  SandboxSpec spec = command();
  allow(spec, {"memory=64MiB"});
  EXPECT_TRUE(make_plan(spec, root_host()));
  const auto refused = make_plan(spec, user_host());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Unsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("--waive limit.memory"));
  spec.waived = {"limit.memory"};
  EXPECT_TRUE(make_plan(spec, user_host()));
}

TEST(MakePlan, WithoutCgroupsProcessesAreCountedByTheUserNamespace) {
  SandboxSpec spec = command();
  allow(spec, {"pids=10"});
  const auto plan = make_plan(spec, user_host());
  ASSERT_TRUE(plan);
  EXPECT_THAT(texts(plan->box), Contains("set-limit          processes 11"));
  EXPECT_TRUE(plan->cgroup.controllers.empty());
}

host::HostFacts unified_host() {
  host::HostFacts facts = root_host();
  facts.cgroups.version = host::CgroupVersion::V2;
  facts.cgroups.parents = {{"memory", "/cg"}, {"pids", "/cg"}, {"cpu", "/cg"}, {"cpuacct", "/cg"}};
  return facts;
}

// The box's init is in the cgroup on version 2; what was asked for is about the command.
TEST(MakePlan, ProcessesOfTheBoxItselfAreCountedOnTop) {
  SandboxSpec spec = command();
  allow(spec, {"pids=20"});
  const auto plan = make_plan(spec, unified_host());
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->cgroup.pids, 20U);
  const std::vector<std::byte> bytes = encode(*plan);
  EXPECT_EQ(PlanView::decode(bytes)->header().pids, 21U);
  const auto first_version = make_plan(spec, root_host());
  ASSERT_TRUE(first_version);
  EXPECT_EQ(first_version->cgroup.pids, 20U);
  EXPECT_EQ(first_version->cgroup.own_pids, 0U);
}

// Setting a box up takes three threads, and on version 2 they are in the cgroup.
TEST(MakePlan, LimitOfOneProcessLeavesRoomToSetUp) {
  SandboxSpec spec = command();
  allow(spec, {"pids=1"});
  const auto plan = make_plan(spec, unified_host());
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->cgroup.pids, 1U);
  EXPECT_EQ(*plan->cgroup.pids + plan->cgroup.own_pids, 3U);
  EXPECT_THAT(texts(plan->box), Contains("set-limit          processes 2"));
  const auto first_version = make_plan(spec, root_host());
  ASSERT_TRUE(first_version);
  EXPECT_THAT(texts(first_version->box), Not(Contains("set-limit          processes 2")));
}

TEST(MakePlan, MissingLandlockIsARefusal) {
  host::HostFacts facts = root_host();
  facts.landlock_abi = 0;
  EXPECT_EQ(make_plan(command(), facts).error().code, Code::Unsupported);
  SandboxSpec waived = command();
  waived.waived = {"landlock"};
  EXPECT_TRUE(make_plan(waived, facts));
}

TEST(MakePlan, RefusesWordsItDoesNotKnow) {
  SandboxSpec spec = command();
  spec.waived = {"seccomp"};
  EXPECT_EQ(make_plan(spec, root_host()).error().code, Code::Invalid);
  EXPECT_EQ(make_plan(command({}), root_host()).error().code, Code::Invalid);
  EXPECT_EQ(make_plan(command({""}), root_host()).error().code, Code::Invalid);
  spec = command();
  spec.hostname = "a b";
  EXPECT_EQ(make_plan(spec, root_host()).error().code, Code::Invalid);
  spec = command();
  spec.cwd = "relative";
  EXPECT_EQ(make_plan(spec, root_host()).error().code, Code::Invalid);
  spec = command();
  spec.backend = Backend::Microvm;
  EXPECT_EQ(make_plan(spec, root_host()).error().code, Code::Unsupported);
}

TEST(MakePlan, EnvironmentIsFiveNamesAndWhatWasGranted) {
  SandboxSpec spec = command({"tool"});
  allow(spec, {"env=TOKEN", "env=UNSET", "env=PATH=/opt/bin:/usr/bin"});
  spec.caller_env = {{"TOKEN", "x"}};
  const auto plan = make_plan(spec, user_host());
  EXPECT_EQ(plan->envp,
            (std::vector<std::string>{"PATH=/opt/bin:/usr/bin", "HOME=/home/box", "LANG=C.UTF-8",
                                      "TERM=dumb", "TMPDIR=/tmp", "TOKEN=x"}));
  EXPECT_EQ(plan->candidates, (std::vector<std::string>{"/opt/bin/tool", "/usr/bin/tool"}));
}

TEST(MakePlan, IdentityInsideIsTheUsersOrOneThousand) {
  EXPECT_EQ(make_plan(command(), root_host())->uid, 1000u);
  EXPECT_EQ(make_plan(command(), user_host())->uid, 1234u);
  EXPECT_EQ(make_plan(command(), user_host())->gid, 1235u);
}

}  // namespace
}  // namespace glovebox::plan
