#include "workspace/commit/commit_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace glovebox::workspace {
namespace {

using testing::ElementsAre;

Change made(ChangeKind kind, std::string path, NodeType type = NodeType::File,
            unsigned mode = 0755) {
  Change change;
  change.kind = kind;
  change.path = std::move(path);
  Node node{.type = type, .mode = mode, .inode = 3};
  if (kind != ChangeKind::Added) change.before = node;
  if (kind != ChangeKind::Deleted) change.after = node;
  if (kind == ChangeKind::Modified) change.aspects.content = type == NodeType::File;
  if (kind == ChangeKind::Modified) change.aspects.mode = type == NodeType::Directory;
  return change;
}

std::vector<std::string> plan(std::vector<Change> changes, const Selection& selection = {}) {
  sort_changes(changes);
  std::vector<std::string> lines;
  Chooser chooser = Chooser::parse(selection).value();
  for (const PlannedStep& planned : plan_commit(changes, chooser).steps) {
    constexpr const char* kNames[] = {"remove", "add", "replace", "set"};
    lines.push_back(fmt::format("{} {}{}", kNames[static_cast<int>(planned.step.kind)],
                                planned.step.path, planned.step.scope == Scope::Tree ? "/" : ""));
  }
  return lines;
}

TEST(CommitPlan, RemovesFirstAndSetsModesLast) {
  EXPECT_THAT(
      plan({made(ChangeKind::Added, "new", NodeType::Directory, 0555),
            made(ChangeKind::Added, "new/x"), made(ChangeKind::Deleted, "old"),
            made(ChangeKind::Modified, "m"), made(ChangeKind::Modified, "d", NodeType::Directory)}),
      ElementsAre("remove old", "replace m", "add new", "add new/x", "set new", "set d"));
}

TEST(CommitPlan, ADeletedTreeGoesInOneMove) {
  const std::vector<Change> tree = {
      made(ChangeKind::Deleted, "t", NodeType::Directory), made(ChangeKind::Deleted, "t/a"),
      made(ChangeKind::Deleted, "t/s", NodeType::Directory), made(ChangeKind::Deleted, "t/s/b"),
      made(ChangeKind::Deleted, "t.c")};
  EXPECT_THAT(plan(tree), ElementsAre("remove t/", "remove t.c"));
  EXPECT_THAT(plan(tree, {.reject = {"t/a"}}), ElementsAre("remove t/s/", "remove t.c"));
}

TEST(CommitPlan, TakesNewDirectoriesAlong) {
  EXPECT_THAT(plan({made(ChangeKind::Added, "n", NodeType::Directory),
                    made(ChangeKind::Added, "n/s", NodeType::Directory),
                    made(ChangeKind::Added, "n/s/x"), made(ChangeKind::Added, "n/y")},
                   {.only = {"n/s/x"}}),
              ElementsAre("add n", "add n/s", "add n/s/x"));
}

TEST(CommitPlan, ADirectoryInPlaceOfAFileIsRemovedBeforeItIsAdded) {
  EXPECT_THAT(
      plan({made(ChangeKind::Deleted, "p"), made(ChangeKind::Added, "p", NodeType::Directory),
            made(ChangeKind::Added, "p/x")}),
      ElementsAre("remove p", "add p", "add p/x"));
  EXPECT_THAT(plan({made(ChangeKind::Deleted, "p", NodeType::Directory),
                    made(ChangeKind::Deleted, "p/x"), made(ChangeKind::Added, "p")}),
              ElementsAre("remove p/", "add p"));
}

TEST(Chooser, RejectWinsAndAcceptanceIsByName) {
  const auto chooser = Chooser::parse({.only = {"src"},
                                       .reject = {"*.o"},
                                       .accept_rules = {"git-hooks"},
                                       .accept_paths = {".envrc", "ci/*.yml"}})
                           .value();
  EXPECT_TRUE(chooser.takes("src/a.c"));
  EXPECT_FALSE(chooser.takes("src/a.o"));
  EXPECT_FALSE(chooser.takes("doc/a"));
  EXPECT_TRUE(chooser.accepts("x", "git-hooks", "git"));
  EXPECT_TRUE(chooser.accepts(".envrc", "directory-environment", "git"));
  EXPECT_TRUE(chooser.accepts("ci/a.yml", "build-service", "git"));
  EXPECT_FALSE(chooser.accepts("sub/.envrc", "directory-environment", "git"));
}

// A box that names a link "**" hopes for the answer --accept '**'.
TEST(Chooser, APatternThatIsTheNameOfAChangeMeansThatChangeAlone) {
  Chooser chooser = Chooser::parse({.accept_paths = {"**", "ci/*", "x/*"}}).value();
  EXPECT_TRUE(chooser.accepts(".envrc", "directory-environment", "git"));
  plan_commit({made(ChangeKind::Added, "**", NodeType::Symlink), made(ChangeKind::Added, ".envrc"),
               made(ChangeKind::Added, "ci/*"), made(ChangeKind::Added, "ci/a")},
              chooser);
  EXPECT_TRUE(chooser.accepts("**", "link-points-out", "git"));
  EXPECT_TRUE(chooser.accepts("ci/*", "build-service", "git"));
  EXPECT_TRUE(chooser.accepts("x/y", "build-service", "git"));
  EXPECT_FALSE(chooser.accepts(".envrc", "directory-environment", "git"));
  EXPECT_FALSE(chooser.accepts("ci/a", "build-service", "git"));
}

}  // namespace
}  // namespace glovebox::workspace
