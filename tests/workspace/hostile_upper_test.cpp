// Uppers as no kernel writes them, and boxes that try to make some.
#include "workspace/fixture.h"

#include <gmock/gmock.h>

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace glovebox::workspace::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class HostileUpper : public WorkspaceTest {
 protected:
  void SetUp() override {
    WorkspaceTest::SetUp();
    fs::create_directory(origin() / "d");
    write_file(origin() / "d/f", "f\n");
    write_file(origin() / "keep", "keep\n");
    begin();
  }

  // The path must be refused, and a commit must do nothing because of it.
  void expect_refused(const std::string& path) {
    const auto found = changes();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].kind, ChangeKind::Refused) << to_text(found[0]);
    EXPECT_EQ(found[0].path, path);
    const Tree before = read_tree(origin());
    const CommitResult result =
        commit_all({.accept_rules = {kRefusedRule}, .accept_paths = {"**"}});
    EXPECT_EQ(result.held.size(), 1U);
    EXPECT_EQ(read_tree(origin()), before);
  }
};

TEST_F(HostileUpper, RedirectsAndMetacopyAreRefused) {
  fs::create_directory(upper() / "d");
  set_user_xattr(upper() / "d", "user.overlay.redirect", "/keep");
  expect_refused("d");
}

TEST_F(HostileUpper, MetacopyIsRefused) {
  write_file(upper() / "keep", "");
  set_user_xattr(upper() / "keep", "user.overlay.metacopy", "");
  expect_refused("keep");
}

TEST_F(HostileUpper, AnUnknownOpaqueValueIsRefused) {
  fs::create_directory(upper() / "d");
  set_user_xattr(upper() / "d", "user.overlay.opaque", "z");
  expect_refused("d");
}

TEST_F(HostileUpper, AnXattrWhiteoutCountsOnlyInItsDirectory) {
  write_file(upper() / "keep", "");
  set_user_xattr(upper() / "keep", "user.overlay.whiteout", "y");
  expect_refused("keep");
}

TEST_F(HostileUpper, AnXattrWhiteoutInAMarkedDirectoryDeletes) {
  fs::create_directory(upper() / "d");
  set_user_xattr(upper() / "d", "user.overlay.opaque", "x");
  write_file(upper() / "d/f", "");
  set_user_xattr(upper() / "d/f", "user.overlay.whiteout", "y");
  EXPECT_THAT(to_lines(changes()), ElementsAre("deleted d/f"));
}

TEST_F(HostileUpper, MarksOfTheOtherKindAreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can write trusted attributes";
  fs::create_directory(upper() / "d");
  ASSERT_EQ(::setxattr((upper() / "d").c_str(), "trusted.overlay.opaque", "y", 1, 0), 0);
  expect_refused("d");
}

// Names of other union filesystems are data.
TEST_F(HostileUpper, DotWhNamesAreData) {
  write_file(upper() / ".wh.keep", "");
  EXPECT_THAT(to_lines(changes()), ElementsAre("added .wh.keep"));
  ASSERT_FALSE(commit_all().is_refused());
  EXPECT_TRUE(fs::exists(origin() / "keep"));
}

TEST_F(HostileUpper, FifosDoNotBlockAndAreHeld) {
  ASSERT_EQ(::mkfifo((upper() / "pipe").c_str(), 0666), 0);
  ASSERT_EQ(::mkfifo((upper() / "keep").c_str(), 0666), 0);
  EXPECT_THAT(to_lines(changes()), ElementsAre("modified keep (type)", "added pipe"));
  const GateRules rules = builtin_gate_rules().value();
  EXPECT_EQ(commit_all({}, rules).held.size(), 2U);
  EXPECT_FALSE(
      commit_all({.only = {"pipe"}, .accept_rules = {"special-file"}}, rules).is_refused());
  EXPECT_TRUE(fs::is_fifo(origin() / "pipe"));
}

TEST_F(HostileUpper, LinkLoopsAndLinksOutAreNeverFollowed) {
  fs::create_symlink("loop", upper() / "loop");
  fs::create_symlink("/etc", upper() / "d");  // in place of a directory of the original
  EXPECT_THAT(to_lines(changes()),
              ElementsAre("deleted d", "added d", "deleted d/f", "added loop"));
  ASSERT_FALSE(commit_all({.accept_rules = {"link-points-out"}}).is_refused());
  EXPECT_EQ(fs::read_symlink(origin() / "d"), "/etc");
  ASSERT_TRUE(undo_last().conflicts.empty());
  EXPECT_EQ(read_text(origin() / "d/f"), "f\n");
}

TEST_F(HostileUpper, OddNamesAreCommittedByteForByte) {
  const std::string name = "new\nline \xff\x01%\"'\\";
  write_file(upper() / name, "odd\n");
  ASSERT_FALSE(commit_all().is_refused());
  EXPECT_EQ(read_text(origin() / name), "odd\n");
  ASSERT_TRUE(undo_last().conflicts.empty());
  EXPECT_FALSE(fs::exists(origin() / name));
}

TEST_F(HostileUpper, AHundredThousandLevelsAreRefusedAndRemoved) {
  int dir = ::open(upper().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int level = 0; level < 100'000; ++level) {
    ASSERT_EQ(::mkdirat(dir, "d", 0700), 0);
    const int below = ::openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_GE(below, 0);
    ::close(dir);
    dir = below;
  }
  ::close(dir);
  const auto found = changes();
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.back().kind, ChangeKind::Refused);
  EXPECT_THAT(found.back().problem, HasSubstr("deep"));
  ASSERT_EQ(commit_all().held.size(), 1U);
  const std::string id = layer().facts().id;
  const auto removed = remove_layer(root(), id);
  EXPECT_TRUE(removed) << removed.error().message;
  EXPECT_FALSE(fs::exists(temp().path("layers") / id));
}

TEST_F(HostileUpper, ClosedDirectoriesCanBeRemoved) {
  fs::create_directories(upper() / "x/y");
  write_file(upper() / "x/y/f", "");
  ::chmod((upper() / "x/y").c_str(), 0);
  ::chmod((upper() / "x").c_str(), 0500);
  const auto removed = remove_layer(root(), layer().facts().id);
  EXPECT_TRUE(removed) << removed.error().message;
}

// What the kernel does about a box that forges marks itself (overlay_marks.h tells what it means).
TEST_F(HostileUpper, ABoxCannotForgeMarksThroughItsMount) {
  in_overlay([](const fs::path& merged) {
    write_file(merged / "new", "n");
    fs::create_directory(merged / "d2");
    EXPECT_EQ(::setxattr((merged / "d2").c_str(), "user.overlay.opaque", "y", 1, 0), 0);
    EXPECT_EQ(::setxattr((merged / "new").c_str(), "user.overlay.metacopy", "", 0, 0), 0);
    EXPECT_EQ(::mknod((merged / "wh").c_str(), S_IFCHR | 0600, makedev(0, 0)), -1);
    EXPECT_EQ(::renameat2(AT_FDCWD, (merged / "new").c_str(), AT_FDCWD, (merged / "new2").c_str(),
                          RENAME_WHITEOUT),
              -1);
    write_file(merged / ".wh.keep", "");
  });
  EXPECT_THAT(to_lines(changes()),
              ElementsAre("added .wh.keep", HasSubstr("refused d2"), HasSubstr("refused new")));
}

TEST_F(HostileUpper, AReplacedWorkspaceIsRefused) {
  write_file(upper() / "keep", "box\n");
  fs::rename(origin(), temp().path("aside"));
  fs::create_directory(origin());
  EXPECT_EQ(layer().open_original().error().code, Code::Denied);
}

}  // namespace
}  // namespace glovebox::workspace::test
