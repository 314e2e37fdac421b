#include "workspace/fixture.h"

#include <gmock/gmock.h>

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace glovebox::workspace::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> paths(const std::vector<Conflict>& conflicts) {
  std::vector<std::string> out;
  for (const Conflict& conflict : conflicts) out.push_back(conflict.path);
  return out;
}

class Commit : public WorkspaceTest {
 protected:
  void SetUp() override {
    WorkspaceTest::SetUp();
    fs::create_directories(origin() / "src/deep");
    for (const char* file : {"a", "b", "src/c", "src/d", "src/deep/e"}) {
      write_file(origin() / file, fmt::format("old {}\n", file));
    }
  }
  void write_upper(const std::string& path, const std::string& text) {
    fs::create_directories((upper() / path).parent_path());
    write_file(upper() / path, text);
  }
};

TEST_F(Commit, ChangeOfTheOriginalIsAConflictAndNothingIsDone) {
  begin();
  write_upper("a", "box\n");
  write_upper("b", "box\n");
  wait_for_tick();
  write_file(origin() / "a", "mine\n");
  const CommitResult result = commit_all();
  EXPECT_THAT(paths(result.conflicts), ElementsAre("a")) << to_text(result.conflicts.back());
  EXPECT_THAT(result.applied, IsEmpty());
  EXPECT_EQ(read_text(origin() / "b"), "old b\n");
  // Left out by name, the rest can go.
  EXPECT_FALSE(commit_all({.reject = {"a"}}).is_refused());
  EXPECT_EQ(read_text(origin() / "a"), "mine\n");
  EXPECT_EQ(read_text(origin() / "b"), "box\n");
}

// Every way in which a host changes a file under a box's hands.
TEST_F(Commit, EveryWayToChangeTheOriginalIsSeen) {
  write_file(temp().path("elsewhere"), "old and from elsewhere\n");
  ::mkdir(temp().path("olddir").c_str(), 0755);
  write_file(temp().path("olddir/e"), "another e\n");
  const struct {
    const char* what;
    const char* upper_path;
    std::function<void()> act;
  } cases[] = {
      {"moved over", "a", [&] { fs::rename(temp().path("elsewhere"), origin() / "a"); }},
      {"chmod", "b", [&] { ::chmod((origin() / "b").c_str(), 0600); }},
      {"same size, old mtime", "src/c",
       [&] {
         const auto time = fs::last_write_time(origin() / "src/c");
         write_file(origin() / "src/c", "OLD src/c\n");
         fs::last_write_time(origin() / "src/c", time);
       }},
      {"directory replaced by an old one", "src/deep/e",
       [&] {
         fs::rename(origin() / "src/deep", temp().path("away"));
         fs::rename(temp().path("olddir"), origin() / "src/deep");
       }},
      {"a name of the box's new file taken", "src/new",
       [&] { write_file(origin() / "src/new", "x"); }},
  };
  begin();
  for (const auto& one : cases) write_upper(one.upper_path, "box\n");
  wait_for_tick();
  for (const auto& one : cases) one.act();
  const CommitResult result = commit_all();
  for (const auto& one : cases) {
    EXPECT_THAT(paths(result.conflicts), testing::Contains(one.upper_path)) << one.what;
  }
}

TEST_F(Commit, DeletingWhatTheHostChangedIsAConflict) {
  begin();
  make_whiteout(upper() / "src");
  wait_for_tick();
  write_file(origin() / "src/deep/added", "mine");
  const CommitResult result = commit_all();
  EXPECT_THAT(paths(result.conflicts), ElementsAre("src/deep", "src/deep/added"));
  EXPECT_EQ(read_text(origin() / "src/c"), "old src/c\n");
}

TEST_F(Commit, ADirectoryThatTheHostRemovedIsAConflict) {
  begin();
  write_upper("src/deep/e", "box\n");
  set_user_xattr(upper() / "src/deep", "user.overlay.origin", "");
  wait_for_tick();
  fs::remove_all(origin() / "src/deep");
  EXPECT_THAT(paths(commit_all().conflicts), ElementsAre("src/deep"));
}

TEST_F(Commit, TheSameChangeOnBothSidesIsNone) {
  begin();
  write_upper("a", "same\n");
  wait_for_tick();
  write_file(origin() / "a", "same\n");
  EXPECT_THAT(changes(), IsEmpty());
}

TEST_F(Commit, SelectedPartsOneAfterTheOther) {
  begin();
  for (const char* path : {"a", "src/c", "src/d", "src/new", "src/deep/e"})
    write_upper(path, "box\n");
  EXPECT_FALSE(commit_all({.only = {"src/c"}}).is_refused());
  EXPECT_EQ(read_text(origin() / "src/d"), "old src/d\n");
  const CommitResult rest = commit_all();
  EXPECT_THAT(paths(rest.conflicts), IsEmpty());
  EXPECT_EQ(read_text(origin() / "src/d"), "box\n");
  EXPECT_EQ(read_text(origin() / "src/new"), "box\n");
  // The box goes on, and so does the layer.
  write_upper("src/c", "box again\n");
  EXPECT_FALSE(commit_all().is_refused());
  EXPECT_EQ(read_text(origin() / "src/c"), "box again\n");
}

TEST_F(Commit, AHostChangeAfterACommitIsStillSeen) {
  begin();
  write_upper("src/c", "box\n");
  ASSERT_FALSE(commit_all().is_refused());
  write_upper("src/c", "box again\n");
  wait_for_tick();
  write_file(origin() / "src/c", "mine\n");
  EXPECT_THAT(paths(commit_all().conflicts), ElementsAre("src/c"));
}

TEST_F(Commit, HeldChangesStopEverythingUntilAccepted) {
  begin();
  const GateRules rules = builtin_gate_rules().value();
  write_upper("a", "box\n");
  write_upper(".git/hooks/pre-commit", "evil");
  fs::create_symlink("/etc/passwd", upper() / "out");
  const CommitResult result = commit_all({}, rules);
  ASSERT_EQ(result.held.size(), 2U);
  EXPECT_EQ(result.held[0].rule, "git-hooks");
  EXPECT_EQ(result.held[1].rule, "link-points-out");
  EXPECT_EQ(read_text(origin() / "a"), "old a\n");
  EXPECT_FALSE(commit_all({.reject = {"out"}, .accept_paths = {".git/hooks/pre-commit"}}, rules)
                   .is_refused());
  EXPECT_EQ(read_text(origin() / ".git/hooks/pre-commit"), "evil");
  EXPECT_FALSE(commit_all({.accept_rules = {"link-points-out"}}, rules).is_refused());
  EXPECT_TRUE(fs::is_symlink(origin() / "out"));
}

TEST_F(Commit, TheOriginalsOwnDirectoryOfHooksIsWatched) {
  fs::create_directories(origin() / ".git");
  write_file(origin() / ".git/config", "[core]\n\thooksPath = src/deep\n");
  begin();
  const GateRules rules = builtin_gate_rules().value();
  write_upper("a", "box\n");
  write_upper("src/deep/e", "evil\n");
  const CommitResult result = commit_all({}, rules);
  ASSERT_EQ(result.held.size(), 1U);
  EXPECT_EQ(result.held[0].path, "src/deep/e");
  EXPECT_EQ(result.held[0].rule, "git-hooks-path");
  EXPECT_FALSE(commit_all({.reject = {"src/deep/e"}}, rules).is_refused());
}

TEST_F(Commit, ADirectoryThatOthersMayWriteIsHeld) {
  begin();
  const GateRules rules = builtin_gate_rules().value();
  fs::create_directories(upper() / "src");
  ::chmod((upper() / "src").c_str(), 0777);
  const CommitResult result = commit_all({}, rules);
  ASSERT_EQ(result.held.size(), 1U);
  EXPECT_EQ(result.held[0].rule, "opened-directory");
  EXPECT_FALSE(commit_all({.accept_paths = {"src"}}, rules).is_refused());
  EXPECT_EQ(fs::status(origin() / "src").permissions(), fs::perms{0777});
}

TEST_F(Commit, ALinkNamedLikeAPatternIsAcceptedAlone) {
  begin();
  const GateRules rules = builtin_gate_rules().value();
  fs::create_symlink("/etc/passwd", upper() / "**");
  write_upper(".envrc", "evil");
  const CommitResult result = commit_all({.accept_paths = {"**"}}, rules);
  ASSERT_EQ(result.held.size(), 1U);
  EXPECT_EQ(result.held[0].path, ".envrc");
}

TEST_F(Commit, DryRunTouchesNothing) {
  begin();
  write_upper("a", "box\n");
  const Tree before = read_tree_with_times(origin());
  const auto original = layer().open_original();
  CommitOptions options;
  options.act = Act::DryRun;
  const auto result = commit(layer(), *original, options);
  ASSERT_TRUE(result);
  ASSERT_FALSE(result->is_refused()) << to_text(result->conflicts.front());
  EXPECT_THAT(to_lines(result->applied), ElementsAre("modified a (content)"));
  EXPECT_EQ(result->number, 0U);
  EXPECT_EQ(read_tree_with_times(origin()), before);
}

TEST_F(Commit, SetIdBitsAreDroppedUnlessAccepted) {
  begin();
  write_upper("tool", "x");
  ::chmod((upper() / "tool").c_str(), 04755);
  EXPECT_FALSE(commit_all().is_refused());  // without any rules
  EXPECT_EQ(fs::status(origin() / "tool").permissions(), fs::perms{0755});
  write_upper("tool2", "x");
  ::chmod((upper() / "tool2").c_str(), 04755);
  const GateRules rules = builtin_gate_rules().value();
  EXPECT_EQ(commit_all({.only = {"tool2"}}, rules).held.size(), 1U);
  EXPECT_FALSE(commit_all({.only = {"tool2"}, .accept_rules = {"set-id"}}, rules).is_refused());
  EXPECT_EQ(fs::status(origin() / "tool2").permissions(), fs::perms{04755});
}

TEST_F(Commit, NewFilesBelongToTheOwnerOfTheWorkspace) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::chown(origin().c_str(), 4711, 4712), 0);
  ASSERT_EQ(::chown((origin() / "b").c_str(), 815, 816), 0);
  begin();
  write_upper("new/file", "x");
  write_upper("b", "box\n");
  for (const char* path : {"new", "new/file", "b"}) {
    ASSERT_EQ(::chown((upper() / path).c_str(), 1900000007, 1900000007), 0);
  }
  ASSERT_FALSE(commit_all().is_refused());
  struct stat facts{};
  for (const char* path : {"new", "new/file"}) {
    ::stat((origin() / path).c_str(), &facts);
    EXPECT_EQ(facts.st_uid, 4711U) << path;
    EXPECT_EQ(facts.st_gid, 4712U) << path;
  }
  ::stat((origin() / "b").c_str(), &facts);
  EXPECT_EQ(facts.st_uid, 815U);
}

TEST_F(Commit, AttributesAndModesComeAndGo) {
  set_user_xattr(origin() / "a", "user.keep", "1");
  set_user_xattr(origin() / "a", "user.drop", "1");
  begin();
  write_upper("a", "old a\n");
  set_user_xattr(upper() / "a", "user.keep", "2");
  write_upper("src/deep/x", "x");
  set_user_xattr(upper() / "src", "user.note", "n");
  ::chmod((upper() / "src").c_str(), 0750);
  EXPECT_THAT(to_lines(changes()),
              ElementsAre("modified a (attributes)", "modified src (mode, attributes)",
                          "added src/deep/x"));
  ASSERT_FALSE(commit_all().is_refused());
  char value[8] = {};
  EXPECT_EQ(::getxattr((origin() / "a").c_str(), "user.keep", value, sizeof value), 1);
  EXPECT_EQ(value[0], '2');
  EXPECT_EQ(::getxattr((origin() / "a").c_str(), "user.drop", value, sizeof value), -1);
  EXPECT_EQ(::getxattr((origin() / "src").c_str(), "user.note", value, sizeof value), 1);
  ASSERT_TRUE(undo_last().conflicts.empty());
  EXPECT_EQ(::getxattr((origin() / "a").c_str(), "user.drop", value, sizeof value), 1);
  EXPECT_EQ(::getxattr((origin() / "src").c_str(), "user.note", value, sizeof value), -1);
  EXPECT_EQ(fs::status(origin() / "src").permissions(), fs::perms{0755});
}

TEST_F(Commit, UndoRefusesWhenTheTreeChangedAfterTheCommit) {
  begin();
  write_upper("a", "box\n");
  write_upper("new/x", "x");
  ASSERT_FALSE(commit_all().is_refused());
  write_file(origin() / "a", "mine\n");
  const UndoResult result = undo_last();
  EXPECT_THAT(paths(result.conflicts), ElementsAre("a"));
  EXPECT_EQ(read_text(origin() / "new/x"), "x");
}

TEST_F(Commit, UndoDoesNotTakeTheHostsFilesAlongWithANewDirectory) {
  begin();
  write_upper("new/x", "x");
  ASSERT_FALSE(commit_all().is_refused());
  write_file(origin() / "new/mine", "mine");
  const auto original = layer().open_original();
  EXPECT_FALSE(undo(layer(), *original));
  EXPECT_EQ(read_text(origin() / "new/mine"), "mine");
  EXPECT_EQ(read_text(origin() / "new/x"), "x");
}

TEST_F(Commit, UndoGoesBackOneCommitAtATime) {
  begin();
  write_upper("a", "1\n");
  ASSERT_FALSE(commit_all().is_refused());
  write_upper("a", "2\n");
  ASSERT_FALSE(commit_all().is_refused());
  EXPECT_EQ(undo_last().number, 2U);
  EXPECT_EQ(read_text(origin() / "a"), "1\n");
  EXPECT_EQ(undo_last().number, 1U);
  EXPECT_EQ(read_text(origin() / "a"), "old a\n");
  const auto original = layer().open_original();
  EXPECT_EQ(undo(layer(), *original).error().code, Code::NotFound);
}

TEST_F(Commit, UndoGoesBackThroughADirectoryThatWasRestored) {
  begin();
  write_upper("n/x", "1\n");
  ASSERT_FALSE(commit_all().is_refused());
  fs::remove_all(upper() / "n");
  make_whiteout(upper() / "n");
  ASSERT_FALSE(commit_all().is_refused());
  EXPECT_FALSE(fs::exists(origin() / "n"));
  ASSERT_TRUE(undo_last().conflicts.empty());
  EXPECT_EQ(read_text(origin() / "n/x"), "1\n");
  ASSERT_TRUE(undo_last().conflicts.empty());
  EXPECT_FALSE(fs::exists(origin() / "n"));
}

TEST_F(Commit, ClosedDirectoriesComeAndGo) {
  fs::create_directories(origin() / "ro/sub");
  write_file(origin() / "ro/sub/f", "f\n");
  ::chmod((origin() / "ro/sub").c_str(), 0555);
  ::chmod((origin() / "ro").c_str(), 0555);
  begin();
  make_whiteout(upper() / "ro");
  fs::create_directories(upper() / "closed");
  write_file(upper() / "closed/x", "x");
  ::chmod((upper() / "closed").c_str(), 0555);
  const Tree before = read_tree_with_times(origin());
  ASSERT_FALSE(commit_all().is_refused());
  EXPECT_FALSE(fs::exists(origin() / "ro"));
  EXPECT_EQ(fs::status(origin() / "closed").permissions(), fs::perms{0555});
  ASSERT_TRUE(undo_last().conflicts.empty());
  EXPECT_EQ(read_tree_with_times(origin()), before);
}

// The layer on the disk, the workspace in memory: backups cannot be renamed and are copied.
TEST_F(Commit, BackupsMayBeOnAnotherFilesystem) {
  const TempDir disk(Ground::Disk);
  wait_for_tick();
  const auto other_root = open_layer_root(disk.path("layers"));
  ASSERT_TRUE(other_root);
  auto other = make_layer(*other_root, {.origin = origin()});
  ASSERT_TRUE(other);
  const fs::path there = other->upper_path();
  write_file(there / "a", "box\n");
  make_whiteout(there / "src");
  const Tree before = read_tree_with_times(origin());
  const auto original = other->open_original();
  const auto result = commit(*other, *original, {});
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_FALSE(result->is_refused());
  EXPECT_EQ(read_tree(origin()), (Tree{{"a", "file 0644 box\n"}, {"b", "file 0644 old b\n"}}));
  const auto undone = undo(*other, *original);
  ASSERT_TRUE(undone) << undone.error().message;
  EXPECT_EQ(read_tree_with_times(origin()), before);
}

TEST_F(Commit, WithoutRulesTheBuiltInOnesHold) {
  begin();
  write_upper(".envrc", "evil");
  const auto original = layer().open_original();
  const auto result = commit(layer(), *original, {});
  ASSERT_TRUE(result);
  ASSERT_EQ(result->held.size(), 1U);
  EXPECT_EQ(result->held[0].rule, "directory-environment");
}

TEST_F(Commit, ASparseFileStaysSparse) {
  begin();
  write_upper("huge", "head");
  fs::resize_file(upper() / "huge", std::uintmax_t{1} << 40);
  ASSERT_FALSE(commit_all().is_refused());
  struct stat facts{};
  ::stat((origin() / "huge").c_str(), &facts);
  EXPECT_EQ(facts.st_size, off_t{1} << 40);
  EXPECT_LT(facts.st_blocks, 1000);
}

}  // namespace
}  // namespace glovebox::workspace::test
