#include "plan/lower.h"

#include "plan/example_spec_test_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace glovebox::plan {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

// "/srv rw-": read, write, exec (and c: connect); "cover" for none.
std::vector<std::string> regions(const SandboxSpec& spec,
                                 const host::HostFacts& facts = root_host()) {
  const auto lowered = lower(spec, facts);
  if (!lowered) return {lowered.error().message};
  std::vector<std::string> lines;
  for (const Region& region : lowered->regions) {
    const Rights& rights = region.rights;
    std::string text;
    text += rights.read ? "r" : "-";
    text += rights.write ? "w" : "-";
    text += rights.exec ? "x" : "-";
    if (rights.connect) text += "c";
    lines.push_back(fmt::format("{} {}{}", region.at.path, rights.none() ? "cover" : text,
                                region.ownership == Ownership::Kept ? " kept" : ""));
  }
  return lines;
}

std::vector<std::string> texts(const std::vector<Step>& steps) {
  std::vector<std::string> lines;
  lines.reserve(steps.size());
  for (const Step& step : steps) lines.push_back(to_text(step));
  return lines;
}

std::string refusal(const SandboxSpec& spec, const host::HostFacts& facts = root_host()) {
  const auto lowered = lower(spec, facts);
  return lowered ? "not refused" : lowered.error().message;
}

TEST(Lower, DenyInsideAllowIsCovered) {
  SandboxSpec spec = command();
  allow(spec, {"read=/srv"});
  deny(spec, {"read=/srv/private"});
  EXPECT_THAT(regions(spec), ElementsAre("/srv r-x", "/srv/private cover"));
}

TEST(Lower, AllowInsideDenyShowsThroughTheCover) {
  SandboxSpec spec = command();
  allow(spec, {"read=/srv", "write=/srv/private/a/open"});
  deny(spec, {"read=/srv/private"});
  EXPECT_THAT(regions(spec),
              ElementsAre("/srv r-x", "/srv/private cover", "/srv/private/a/open rwx"));
  const auto plan = make_plan(spec, root_host());
  ASSERT_TRUE(plan);
  const auto lines = texts(plan->box);
  EXPECT_THAT(lines, Contains("make-directory     private:covers/0 (0111)"));
  EXPECT_THAT(lines, Contains("make-directory     private:covers/0/a (0111)"));
  EXPECT_THAT(lines, Contains("make-directory     private:covers/0/a/open (0755)"));
  EXPECT_THAT(lines, Contains("attach-cover       private:covers/0 at /srv/private"));
}

TEST(Lower, CoversOfDirectoriesCannotBePassedAndFilesAreFiles) {
  SandboxSpec spec = command();
  allow(spec, {"read=/srv"});
  deny(spec, {"read=/srv/a", "read=/srv/key.txt"});
  const auto plan = make_plan(spec, root_host());
  EXPECT_THAT(texts(plan->box), Contains("make-directory     private:covers/0 (0000)"));
  EXPECT_THAT(texts(plan->box), Contains("make-file          private:covers/1"));
}

TEST(Lower, DenyWriteInsideWriteIsReadOnly) {
  SandboxSpec spec = command();
  allow(spec, {"write=/work"});
  deny(spec, {"write=/work/.git", "exec=/work/data"});
  EXPECT_THAT(regions(spec), ElementsAre("/work rwx", "/work/.git r-x", "/work/data rw-"));
}

// "DIRECTORY before PLACE" for each directory that is pinned.
std::vector<std::string> pins(const SandboxSpec& spec) {
  const auto lowered = lower(spec, root_host());
  if (!lowered) return {lowered.error().message};
  std::vector<std::string> lines;
  for (const Region& region : lowered->regions) {
    for (const std::string& path : region.pinned)
      lines.push_back(path + " before " + region.at.path);
  }
  return lines;
}

TEST(Lower, DirectoriesAboveADenialInAWritableTreeArePinned) {
  SandboxSpec spec = command();
  allow(spec, {"write=/work"});
  deny(spec, {"write=/work/a/b/.git", "read=/work/c/key.txt", "exec=/work/top"});
  EXPECT_THAT(pins(spec),
              ElementsAre("/work/a before /work/a/b/.git", "/work/a/b before /work/a/b/.git",
                          "/work/c before /work/c/key.txt"));
  EXPECT_THAT(regions(spec), ElementsAre("/work rwx", "/work/a/b/.git r-x", "/work/c/key.txt cover",
                                         "/work/top rw-"));
}

TEST(Lower, APinComesAfterItsTreeAndBeforeWhatIsBelow) {
  SandboxSpec spec = command();
  allow(spec, {"write=/work"});
  deny(spec, {"write=/work/a/b/.git"});
  const auto plan = make_plan(spec, root_host());
  ASSERT_TRUE(plan) << plan.error().message;
  std::vector<std::string> mounts;
  for (const Step& step : plan->box) {
    if (step.op == Op::AttachTree || step.op == Op::PinDirectory) mounts.push_back(to_text(step));
  }
  EXPECT_THAT(mounts, ElementsAre("attach-tree        /work (rw,nosuid,nodev)",
                                  "pin-directory      /work/a", "pin-directory      /work/a/b",
                                  "attach-tree        /work/a/b/.git (ro,nosuid,nodev)"));
}

TEST(Lower, OneDirectoryIsPinnedOnceAndAPlaceWithRulesOfItsOwnNotAtAll) {
  SandboxSpec spec = command();
  allow(spec, {"write=/work"});
  deny(spec, {"read=/work/a/x/one", "read=/work/a/x/two", "exec=/work/a", "read=/work/a/y/three"});
  EXPECT_THAT(pins(spec),
              ElementsAre("/work/a/x before /work/a/x/one", "/work/a/y before /work/a/y/three"));
}

TEST(Lower, TooManyDirectoriesToPinAreRefused) {
  SandboxSpec spec = command();
  allow(spec, {"write=/work"});
  std::string deep = "read=/work";
  for (int i = 0; i < 1500; ++i) deep += "/d";
  for (const char* name : {"/a/k.txt", "/b/k.txt"}) deny(spec, {deep + name});
  EXPECT_EQ(pins(spec).size(), 1502U);
  for (int i = 0; i < 3; ++i) deny(spec, {fmt::format("read=/work/{}{}/k", i, deep.substr(10))});
  EXPECT_THAT(refusal(spec), HasSubstr("more than 4096 directories"));
}

TEST(Lower, NothingIsPinnedWhereNothingCanBeRenamed) {
  SandboxSpec plain = command();
  allow(plain, {"write=/work", "write=/work/a/b", "read=/srv"});
  deny(plain, {"read=/srv/a/b/private", "read=/etc/ssl/private"});
  EXPECT_THAT(pins(plain), IsEmpty());
  SandboxSpec shut = command();
  allow(shut, {"write=/work", "write=/work/a/b/c/d"});
  deny(shut, {"write=/work/a"});
  EXPECT_THAT(pins(shut), IsEmpty());
}

TEST(Lower, SiblingsWithTheSamePrefixAreNotTouched) {
  SandboxSpec spec = command();
  allow(spec, {"read=/srv/a"});
  deny(spec, {"read=/srv/ab"});
  EXPECT_THAT(regions(spec), ElementsAre("/srv/a r-x"));
}

TEST(Lower, WhatIsNotInTheBoxNeedsNoCover) {
  SandboxSpec spec = command();
  deny(spec, {"read=/", "read=/root", "write=/home/alice", "read=/sys", "read=/x.missing"});
  EXPECT_THAT(regions(spec), IsEmpty());
}

TEST(Lower, TheSystemCanBeTakenAwayAndKeepsItsOwners) {
  SandboxSpec spec = command();
  deny(spec, {"read=/etc/ssl", "exec=/usr/share"});
  EXPECT_THAT(regions(spec), ElementsAre("/etc/ssl cover kept", "/usr/share r-- kept"));
}

TEST(Lower, MoreThanTheSystemGivesIsTheOwnersToGive) {
  SandboxSpec spec = command();
  allow(spec, {"write=/etc/app"});
  EXPECT_THAT(regions(spec), ElementsAre("/etc/app rwx"));
}

TEST(Lower, ExecutingWithoutReadingIsRefused) {
  SandboxSpec spec = command();
  deny(spec, {"read=/usr/share"});
  EXPECT_THAT(regions(spec), ElementsAre("/usr/share cover kept"));
  allow(spec, {"exec=/usr/share"});
  EXPECT_THAT(refusal(spec), HasSubstr("/usr/share: executing without reading"));
  SandboxSpec apart = command();
  allow(apart, {"exec=/opt/tool"});
  EXPECT_THAT(refusal(apart), HasSubstr("/opt/tool: executing without reading"));
  allow(apart, {"read=/opt/tool"});
  EXPECT_THAT(regions(apart), ElementsAre("/opt/tool r-x"));
}

TEST(Lower, MissingPathsAreRefusedWhereTheyMatter) {
  SandboxSpec granted = command();
  allow(granted, {"read=/data.missing"});
  EXPECT_THAT(refusal(granted), HasSubstr("does not exist"));

  SandboxSpec writable = command();
  allow(writable, {"write=/work"});
  deny(writable, {"write=/work/hooks.missing"});
  EXPECT_THAT(refusal(writable), HasSubstr("could create it"));

  SandboxSpec readable = command();
  allow(readable, {"read=/work"});
  deny(readable, {"read=/work/hooks.missing"});
  EXPECT_THAT(regions(readable), ElementsAre("/work r-x"));
}

TEST(Lower, SocketsAreHandedInByTheirOwnKind) {
  SandboxSpec spec = command();
  allow(spec, {"unix=/run/db.sock"});
  EXPECT_THAT(regions(spec), ElementsAre("/run/db.sock ---c"));
  SandboxSpec all = command();
  allow(all, {"unix=/run"});
  EXPECT_THAT(refusal(all), HasSubstr("only a socket itself"));
  SandboxSpec file = command();
  allow(file, {"read=/run/db.sock"});
  EXPECT_THAT(refusal(file), HasSubstr("unix=/run/db.sock"));
}

TEST(Lower, SocketsOfAReadableTreeAreGrantedOneByOne) {
  SandboxSpec spec = command();
  allow(spec, {"read=/srv", "unix=/srv/a.sock"});
  deny(spec, {"unix=/srv/b.sock", "unix=/srv/all"});
  EXPECT_THAT(regions(spec), ElementsAre("/srv r-x", "/srv/a.sock ---c", "/srv/b.sock cover"));
  SandboxSpec tree = command();
  allow(tree, {"read=/srv", "unix=/srv"});
  deny(tree, {"unix=/srv/private"});
  EXPECT_THAT(regions(tree), ElementsAre("/srv r-xc", "/srv/private r-x"));
}

// A directory is pinned for what is taken away below it, not for what is given.
// The broker finds the grant's mount by its path: a socket's, or that of a directory of them.
TEST(Lower, AGrantedSocketPinsWhatLiesAbove) {
  for (const char* granted : {"unix=/srv/deep/a.sock", "unix=/srv/deep/all"}) {
    SandboxSpec spec = command();
    allow(spec, {"write=/srv", granted});
    const auto lowered = lower(spec, root_host());
    ASSERT_TRUE(lowered) << lowered.error().message;
    std::vector<std::string> pinned;
    for (const Region& region : lowered->regions) {
      pinned.insert(pinned.end(), region.pinned.begin(), region.pinned.end());
    }
    EXPECT_THAT(pinned, ElementsAre("/srv/deep")) << granted;
  }
}

TEST(Lower, AnExceptionInsideADenialIsGranted) {
  SandboxSpec spec = command();
  allow(spec, {"read=/srv"});
  deny(spec, {"read=/srv/private", "write=/srv/private", "exec=/srv/private", "unix=/srv/private"});
  // Added before the denial it would add nothing, and a set drops what adds nothing.
  allow(spec, {"read=/srv/private/open"});
  EXPECT_THAT(regions(spec),
              ElementsAre("/srv r-x", "/srv/private cover", "/srv/private/open r--"));
}

TEST(Lower, WithoutTheGuardADenialOfSocketsIsRefused) {
  SandboxSpec spec = command();
  spec.waived.insert("host-sockets");
  allow(spec, {"read=/srv"});
  deny(spec, {"unix=/srv/all"});
  EXPECT_THAT(refusal(spec), HasSubstr("the sockets themselves"));
}

TEST(Lower, ProcIsCoveredAsAWholeOrNotAtAll) {
  SandboxSpec spec = command();
  deny(spec, {"read=/proc/bus"});
  const auto lowered = lower(spec, root_host());
  ASSERT_TRUE(lowered);
  ASSERT_EQ(lowered->regions.size(), 1u);
  EXPECT_TRUE(lowered->regions[0].rights.none());
  EXPECT_EQ(lowered->regions[0].at.inode, 0u);
  SandboxSpec half = command();
  deny(half, {"write=/proc/sys"});
  EXPECT_THAT(refusal(half), HasSubstr("only reading"));
}

SandboxSpec with_layer() {
  const auto directory = [](const char* path, std::uint64_t inode) {
    return host::PathFacts{
        .path = path, .kind = host::PathKind::Directory, .device = 1, .inode = inode};
  };
  SandboxSpec spec = command();
  spec.workspaces = {
      {directory("/work", 7), WorkspaceMode::Overlay, "", directory("/layers/1/box", 8)}};
  return spec;
}

TEST(Lower, ALayeredWorkspaceIsReadBelowAndWrittenOnTop) {
  const auto plan = make_plan(with_layer(), root_host());
  ASSERT_TRUE(plan);
  EXPECT_THAT(texts(plan->box), Contains("mount-overlay      /work (rw,nosuid,nodev)"));
  ASSERT_EQ(plan->trees.size(), 2u);
  EXPECT_EQ(plan->trees[0].source.path, "/work");
  EXPECT_FALSE(plan->trees[0].rights.write);
  EXPECT_EQ(plan->trees[1].source.path, "/layers/1/box");
  EXPECT_TRUE(plan->trees[1].rights.write);
}

TEST(Lower, ALayerIsUsedAlsoInsideAWritableTreeAndNotWhereWritingIsDenied) {
  SandboxSpec inside = with_layer();
  allow(inside, {"write=/work"});
  EXPECT_EQ(make_plan(inside, root_host())->trees.size(), 2u);
  SandboxSpec denied = with_layer();
  deny(denied, {"write=/work"});
  const auto plan = make_plan(denied, root_host());
  ASSERT_EQ(plan->trees.size(), 1u);
  EXPECT_FALSE(plan->trees[0].rights.write);
}

TEST(Lower, AnOverlayNeedsALayer) {
  SandboxSpec spec = with_layer();
  spec.workspaces.front().layer.reset();
  EXPECT_THAT(refusal(spec), HasSubstr("needs a layer"));
}

TEST(Lower, ADiskBudgetNeedsALayerThatKeepsIt) {
  SandboxSpec spec = with_layer();
  allow(spec, {"disk=8MiB"});
  EXPECT_THAT(refusal(spec), HasSubstr("--waive limit.disk"));
  spec.waived.insert("limit.disk");
  EXPECT_EQ(make_plan(spec, root_host())->trees.size(), 2u);
  spec.waived.clear();

  spec.workspaces.front().backing = LayerBacking::Memory;
  const auto memory = make_plan(spec, root_host());
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_EQ(memory->trees.size(), 1u);
  EXPECT_EQ(handed_layers(*memory), std::vector<std::string>{"/work"});

  spec.workspaces.front().backing = LayerBacking::Image;
  EXPECT_THAT(refusal(spec), HasSubstr("needs a layer"));
  spec.workspaces.front().layer->kind = host::PathKind::File;
  const auto image = make_plan(spec, root_host());
  ASSERT_TRUE(image) << image.error().message;
  ASSERT_EQ(image->trees.size(), 2u);
  EXPECT_EQ(image->trees[1].kind, TreeKind::Image);
  EXPECT_EQ(handed_layers(*image), std::vector<std::string>{"/work"});
}

TEST(Lower, NoMoreOfADiskBudgetIsPromisedThanCanBeKept) {
  SandboxSpec spec = with_layer();
  spec.workspaces.front().backing = LayerBacking::Memory;
  allow(spec, {"disk=8GiB"});
  spec.disk_at_most = std::uint64_t{1} << 30;
  const auto plan = make_plan(spec, root_host());
  ASSERT_TRUE(plan) << plan.error().message;
  const auto scratch = std::ranges::find(plan->box, Op::MountScratch, &Step::op);
  EXPECT_EQ(scratch->a, std::uint64_t{1} << 30);
  const auto said = std::ranges::find(plan->guarantees, "limit.disk", &Guarantee::name);
  EXPECT_EQ(said->by,
            "tmpfs size, 1 GiB, layers included (of 8 GiB asked for: no more can be kept here)");
}

host::PathFacts some_directory(const std::string& path, std::uint64_t inode) {
  return {.path = path, .kind = host::PathKind::Directory, .device = 1, .inode = inode};
}

TEST(Lower, EachWorkspaceHasItsOwnMode) {
  SandboxSpec spec = with_layer();
  spec.workspaces.push_back({some_directory("/work/out", 20), WorkspaceMode::Write});
  spec.workspaces.push_back({some_directory("/work/lib", 21), WorkspaceMode::Read});
  spec.workspaces.push_back({some_directory("/data", 22), WorkspaceMode::Discard});
  const auto plan = make_plan(spec, root_host());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(texts(plan->box),
              IsSupersetOf({"mount-overlay      /work (rw,nosuid,nodev)",
                            "attach-tree        /work/out (rw,nosuid,nodev)",
                            "attach-tree        /work/lib (ro,nosuid,nodev)",
                            "mount-overlay      /data (rw,nosuid,nodev, in memory)",
                            "change-directory   /work"}));
}

TEST(Lower, DirectoriesAreNotPinnedInAnOverlayAndAreAboveOne) {
  SandboxSpec inside = with_layer();
  deny(inside, {"write=/work/a/.git"});
  EXPECT_THAT(pins(inside), IsEmpty());
  SandboxSpec around = with_layer();
  around.workspaces.front().at.path = "/srv/a/work";
  around.workspaces.push_back({some_directory("/srv", 20), WorkspaceMode::Write});
  EXPECT_THAT(pins(around), ElementsAre("/srv/a before /srv/a/work"));
}

TEST(Lower, PinsGoUpThroughAllTheTreesThatCanBeWritten) {
  SandboxSpec spec = command();
  spec.workspaces = {{some_directory("/work", 20), WorkspaceMode::Write},
                     {some_directory("/work/a/b", 21), WorkspaceMode::Write}};
  EXPECT_THAT(pins(spec), IsEmpty());
  deny(spec, {"read=/work/a/b/c/d"});
  EXPECT_THAT(pins(spec),
              ElementsAre("/work/a before /work/a/b", "/work/a/b/c before /work/a/b/c/d"));
}

TEST(Lower, AWorkspaceCanBeShownAtAnotherPath) {
  SandboxSpec spec = command();
  spec.workspaces = {{some_directory("/srv/data", 9), WorkspaceMode::Read, "/mnt/data"}};
  const auto plan = make_plan(spec, root_host());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(texts(plan->box), Contains("attach-tree        /mnt/data (ro,nosuid,nodev)"));
  ASSERT_EQ(plan->trees.size(), 1U);
  EXPECT_EQ(plan->trees.front().source.path, "/srv/data");
}

TEST(Lower, NoDenialIsEvadedByAnotherPath) {
  SandboxSpec spec = command();
  spec.workspaces = {{some_directory("/srv", 9), WorkspaceMode::Read, "/mnt/data"}};
  for (const char* denied : {"read=/srv", "read=/srv/key.txt", "write=/srv", "read=/mnt/data/x"}) {
    SandboxSpec with_denial = spec;
    deny(with_denial, {denied});
    EXPECT_THAT(refusal(with_denial), HasSubstr("cannot be shown at /mnt/data")) << denied;
  }
}

TEST(Lower, AWorkspaceIsNotShownWhereTheBoxHasItsOwn) {
  for (const char* inside :
       {"/", "/proc/x", "/dev", "/sys/a", "/usr/lib/x", "relative", "/a/../b"}) {
    SandboxSpec spec = command();
    spec.workspaces = {{some_directory("/srv", 9), WorkspaceMode::Read, inside}};
    EXPECT_NE(refusal(spec), "") << inside;
  }
}

TEST(Lower, TwoWorkspacesAtOnePathAreRefused) {
  SandboxSpec spec = with_layer();
  spec.workspaces.push_back({some_directory("/srv", 9), WorkspaceMode::Read, "/work"});
  EXPECT_THAT(refusal(spec), HasSubstr("/work is handed in twice"));
}

TEST(Lower, EveryTermSaysWhatEnforcesIt) {
  SandboxSpec spec = command();
  allow(spec, {"read=/srv", "env=HOME=/srv", "memory=64MiB", "connections=4"});
  deny(spec, {"connect=*:443", "env=TERM", "read=/srv/key.txt"});
  const auto lowered = lower(spec, root_host());
  ASSERT_TRUE(lowered) << lowered.error().message;
  std::vector<std::string> lines;
  for (const Guarantee& term : lowered->terms) lines.push_back(term.name + ": " + term.by);
  EXPECT_THAT(lines, ElementsAre("allow read=/srv: mounted ro,nosuid,nodev",
                                 "deny read=/srv/key.txt: covered by an empty place",
                                 "deny connect=*:443: empty network namespace",
                                 "allow env=HOME=/srv: set in the environment",
                                 "deny env=TERM: left out of the environment",
                                 "allow memory=67108864: see the limits",
                                 "allow connections=4: empty network namespace"));
}

TEST(Lower, WhatThisBackendCannotTellApartIsRefusedByName) {
  for (const char* term : {"import=json", "subprocess=git", "clock", "random", "channel=news",
                           "secret=TOKEN", "subprocess_shell=git"}) {
    SandboxSpec spec = command();
    allow(spec, {term});
    const auto lowered = lower(spec, root_host());
    ASSERT_FALSE(lowered) << term;
    EXPECT_EQ(lowered.error().code, Code::Unsupported);
    EXPECT_THAT(lowered.error().message, HasSubstr(term));
  }
}

TEST(Lower, BudgetsBecomeLimits) {
  SandboxSpec spec = command();
  allow(spec, {"cpu=1500ms", "memory=1GiB", "pids=7", "wall=30s", "disk=1MiB", "inodes=99",
               "output=1KiB", "open_files=64"});
  const auto lowered = lower(spec, root_host());
  ASSERT_TRUE(lowered);
  const Limits& limits = lowered->limits;
  using std::chrono::milliseconds;
  EXPECT_EQ(limits, (Limits{.memory_bytes = 1ULL << 30,
                            .pids = 7,
                            .cpus_milli = {},
                            .cpu_time = milliseconds(1500),
                            .wall = milliseconds(30'000),
                            .output_bytes = 1024,
                            .open_files = 64,
                            .disk_bytes = 1U << 20,
                            .inodes = 99}));
}

TEST(Lower, DeniedVariablesAreLeftOutAlsoTheUsualOnes) {
  SandboxSpec spec = command();
  allow(spec, {"env=A=1", "env=B=2"});
  deny(spec, {"env=TERM", "env=B=2"});
  EXPECT_THAT(make_plan(spec, root_host())->envp,
              ElementsAre(HasSubstr("PATH="), HasSubstr("HOME="), HasSubstr("LANG="),
                          HasSubstr("TMPDIR="), "A=1"));
}

}  // namespace
}  // namespace glovebox::plan
