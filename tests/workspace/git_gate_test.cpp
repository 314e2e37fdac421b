// Held names that travel in a repository: in commits, in the index, under the names of other
// objects. Made by git itself in a real overlay.
#include "workspace/commit/gate_places.h"
#include "workspace/git_fixture.h"

#include <fcntl.h>

namespace glovebox::workspace::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(GitGate, AnOrdinaryCommitPasses) {
  in_box("echo c >src/a.c && echo new >src/new.c && git add . && git commit -qm 3");
  EXPECT_THAT(held(), IsEmpty());
  shell(origin(), "git fsck --strict && test \"$(git log --oneline | wc -l)\" = 3");
}

TEST_F(GitGate, OrdinaryWorkWithBranchesPasses) {
  in_box(
      "git checkout -q -b topic && echo x >src/x.c && git add . && git commit -qm x"
      " && git checkout -q main && echo y >src/y.c && git add . && git commit -qm y"
      " && git merge -q -m m topic && git tag -a -m t v1 && git stash list && git rebase -q old "
      "topic"
      " && git checkout -q main && git branch -qD topic && git pack-refs --all && git repack -qad");
  EXPECT_THAT(held(), IsEmpty()) << testing::PrintToString(whys_);
  shell(origin(), "git fsck --strict");
}

TEST_F(GitGate, OrdinaryWorkThatIsNotFinishedPasses) {
  in_box(
      "echo x >src/x.c && git add src/x.c && git stash -q && git stash apply -q"
      " && echo n >src/n.c && git add -N src/n.c && git checkout -q --detach && git commit -qam d"
      " && git tag light && git tag -a -m 'ref: a message' note && git notes add -m 'a note'"
      " && git checkout -q main && git checkout -q - && git update-index --index-version 4"
      " && echo z >src/z.c && git add src/z.c && git cherry-pick --quit");
  EXPECT_THAT(held(), IsEmpty()) << testing::PrintToString(whys_);
  shell(origin(), "git fsck --strict && test $(git diff --cached --name-only | wc -l) = 1");
}

TEST_F(GitGate, AMergeWithAConflictPasses) {
  shell(origin(),
        "git checkout -q old && echo o >src/o.c && git add . && git commit -qm o"
        " && echo other >src/a.c && git commit -qam other && git checkout -q main");
  in_box("! git merge old >/dev/null && git status >/dev/null");
  EXPECT_THAT(held(), IsEmpty()) << testing::PrintToString(whys_);
  shell(origin(), "git ls-files -u | grep -q src/a.c && test -e .git/MERGE_HEAD");
}

TEST_F(GitGate, CollectedRepositoriesPass) {
  shell(origin(),
        "git checkout -q -b gone && echo g >g && git add g && git commit -qm g && git checkout -q "
        "main && git branch -qD gone");
  in_box(
      "echo c >src/c.c && git add . && git commit -qm 'ref: not one\n\nbody' && git rebase -q old"
      " && git reflog expire --expire=now --expire-unreachable=now refs/heads/main"
      " && git -c gc.writeCommitGraph=false gc -q --prune=now && git bisect start HEAD old "
      ">/dev/null"
      " && git bisect reset 2>/dev/null");
  EXPECT_THAT(held(), IsEmpty()) << testing::PrintToString(whys_);
  shell(origin(), "git fsck --strict");
}

// As by "git reflog expire": what the first line left comes from was pruned long ago.
TEST_F(GitGate, ALogThatWasCutPasses) {
  shell(origin(),
        "z=0000000000000000000000000000000000000000 o=1111111111111111111111111111111111111111"
        " && who='a <a@b> 1700000000 +0000' && l=.git/logs/refs/heads/old"
        " && echo \"$z $o $who\" >$l && echo \"$o $(git rev-parse old) $who\" >>$l");
  in_box("sed -i 1d .git/logs/refs/heads/old");
  EXPECT_THAT(held(), IsEmpty()) << testing::PrintToString(whys_);
}

TEST_F(GitGate, ASparseCheckoutsIndexIsRead) {
  shell(origin(), "git sparse-checkout init --cone --sparse-index && git config core.hooksPath x");
  in_box("echo t >top.c && git add top.c && git commit -qm t");
  EXPECT_THAT(held(), IsEmpty()) << testing::PrintToString(whys_);
}

TEST_F(GitGate, ABranchFromAnOlderCommitPasses) {
  in_box(
      "git branch b2 old && git update-ref refs/heads/b3 $(git commit-tree -p old -m x "
      "old^{tree})");
  EXPECT_THAT(held(), IsEmpty()) << testing::PrintToString(whys_);
}

TEST_F(GitGate, NamesInACommitAreHeldThoughTheFilesAreGone) {
  in_box(
      "echo evil >.github/workflows/evil.yml && echo evil >.envrc && git add . && git commit -qm 3"
      " && git update-index --skip-worktree .envrc .github/workflows/evil.yml"
      " && rm .envrc .github/workflows/evil.yml");
  const auto lines = held();
  EXPECT_THAT(lines, Contains("build-service .git/refs/heads/main"));
  EXPECT_THAT(lines, Contains("directory-environment .git/refs/heads/main"));
  EXPECT_THAT(lines, Contains("git-hidden-file .git/index"));
  EXPECT_THAT(whys_, Contains(HasSubstr("has .github/workflows/evil.yml")));
  // Left out, or accepted by name.
  EXPECT_THAT(held({.reject = {".git"}}), IsEmpty());
  EXPECT_THAT(held({.accept_paths = {".git/refs/heads/main", ".git/index"}}), IsEmpty());
}

TEST_F(GitGate, AChangedWorkflowInAnIntermediateCommitIsHeld) {
  in_box(
      "cp .github/workflows/ci.yml keep && echo evil >.github/workflows/ci.yml && git commit -qam 3"
      " && cp keep .github/workflows/ci.yml && git commit -qam 4 && rm keep");
  EXPECT_THAT(held(), ElementsAre("build-service .git/refs/heads/main"));
}

TEST_F(GitGate, ARemovedNameIsHeld) {
  in_box("git rm -q --cached .github/workflows/ci.yml && git commit -qm 3");
  EXPECT_THAT(held(), ElementsAre("build-service .git/refs/heads/main"));
  EXPECT_THAT(whys_, Contains(HasSubstr("removes .github/workflows/ci.yml")));
}

TEST_F(GitGate, PackedRefsAndPackedObjectsAreRead) {
  in_box(
      "echo evil >.envrc && git add . && git commit -qm 3 && rm .envrc && git repack -qad"
      " && git pack-refs --all && git reflog expire --expire=now --all");
  EXPECT_THAT(held(), Contains("directory-environment .git/packed-refs"));
}

TEST_F(GitGate, TagsStashesAndLogsAreRead) {
  in_box(
      "echo evil >.envrc && git add . && git commit -qm 3 && git tag -a -m t v1 && git reset -q "
      "--hard HEAD~"
      " && rm -f .git/logs/HEAD .git/logs/refs/heads/main .git/ORIG_HEAD");
  EXPECT_THAT(held(), ElementsAre("directory-environment .git/refs/tags/v1"));
}

TEST_F(GitGate, AStashIsRead) {
  in_box("echo evil >.envrc && git add . && git stash -q && rm -f .git/ORIG_HEAD");
  EXPECT_THAT(held(), ElementsAre("directory-environment .git/refs/stash"));
}

TEST_F(GitGate, WhatOnlyALogLeadsToIsRead) {
  in_box(
      "echo evil >.envrc && git add . && git commit -qm 3 && git reset -q --hard HEAD~ && rm -f "
      ".git/ORIG_HEAD");
  EXPECT_THAT(held(), ElementsAre("directory-environment .git/logs/HEAD"));
}

TEST_F(GitGate, NamesInTheIndexAreHeld) {
  in_box("echo evil >.envrc && git add .envrc && rm .envrc");
  EXPECT_THAT(held(), ElementsAre("directory-environment .git/index"));
}

TEST_F(GitGate, AnIndexOfVersionFourIsRead) {
  in_box("git update-index --index-version 4 && echo evil >.envrc && git add .envrc && rm .envrc");
  EXPECT_THAT(held(), ElementsAre("directory-environment .git/index"));
}

TEST_F(GitGate, FilesThatGitIsToldNotToLookAtAreHeld) {
  in_box("git update-index --assume-unchanged src/a.c && echo evil >src/a.c");
  EXPECT_THAT(held(), ElementsAre("git-hidden-file .git/index"));
}

TEST_F(GitGate, WhatCannotBeReadIsHeld) {
  in_box("git update-index --split-index && echo x >src/x.c && git add .");
  EXPECT_THAT(held(), Contains("git-unreadable .git/index"));
}

TEST_F(GitGate, AMissingObjectIsHeld) {
  in_box(
      "echo c >src/c.c && git add . && git commit -qm 3"
      " && f=$(git rev-parse HEAD^{tree}) && rm -f .git/objects/$(echo $f | cut -c1-2)/$(echo $f | "
      "cut -c3-)");
  EXPECT_THAT(held(), Contains("git-unreadable .git/refs/heads/main"));
}

TEST_F(GitGate, AnObjectUnderTheNameOfAnotherIsHeld) {
  // The workflow's own name, with other bytes: git would check those out for it.
  in_box(
      "f=$(git rev-parse HEAD:.github/workflows/ci.yml) && e=$(echo evil | git hash-object -w "
      "--stdin)"
      " && o=.git/objects && cp -f $o/$(echo $e | cut -c1-2)/$(echo $e | cut -c3-)"
      " $o/$(echo $f | cut -c1-2)/$(echo $f | cut -c3-)");
  const auto lines = held();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("git-forged-object .git/objects/"));
}

TEST_F(GitGate, RefsThatReplaceObjectsAndGraphsAreHeld) {
  in_box(
      "git commit-graph write --reachable"
      " && git replace HEAD:src/a.c $(echo evil | git hash-object -w --stdin)");
  const auto lines = held();
  EXPECT_THAT(lines, testing::SizeIs(2)) << testing::PrintToString(lines);
  for (const std::string& line : lines) EXPECT_THAT(line, HasSubstr("git-believed .git/"));
}

TEST_F(GitGate, ASubmodulesCommitIsHeld) {
  in_box("git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),lib && git commit -qm 3");
  EXPECT_THAT(held(), ElementsAre("git-submodule-commit .git/refs/heads/main"));
}

TEST_F(GitGate, AnInterruptedRebaseWithCommandsIsHeld) {
  in_box(
      "mkdir .git/rebase-merge && echo 'exec touch /tmp/owned' >.git/rebase-merge/git-rebase-todo");
  EXPECT_THAT(held(), ElementsAre("git-operation .git/rebase-merge/git-rebase-todo"));
}

TEST_F(GitGate, ARepositoryOfAnyNameIsOne) {
  shell(origin(), "mv .git .bare && echo 'gitdir: ./.bare' >.git");
  in_box(
      "echo evil >.bare/hooks/pre-commit && echo evil >.envrc && git add .envrc"
      " && git commit -qm 3 && rm .envrc");
  const auto lines = held();
  EXPECT_THAT(lines, Contains("git-hooks .bare/hooks/pre-commit"));
  EXPECT_THAT(lines, Contains("directory-environment .bare/refs/heads/main"));
}

TEST_F(GitGate, AWorktreesOwnFilesAreOrdinary) {
  shell(origin(), "git worktree add -q w old");
  // Its paths are absolute, and lead to the original when the box is elsewhere.
  in_box(
      "export GIT_DIR=$PWD/.git/worktrees/w GIT_WORK_TREE=$PWD/w && cd w && echo x >x.c && git add "
      ". && git commit -qm x");
  EXPECT_THAT(held(), IsEmpty()) << testing::PrintToString(whys_);
}

class BareGate : public GitGate {
 protected:
  BareGate() : GitGate("mirror.git") {}
  void SetUp() override {
    WorkspaceTest::SetUp();
    shell(origin(), "git init -q --bare -b main .");
  }
};

TEST_F(BareGate, TheWorkspacesOwnNameCounts) {
  in_box("echo evil >hooks/post-receive && echo x >notes.txt");
  EXPECT_THAT(held(), ElementsAre("git-hooks hooks/post-receive"));
  EXPECT_THAT(held({.only = {"notes.txt"}}), IsEmpty());
}

class SettingsGate : public GitGate {
 protected:
  SettingsGate() : GitGate(".claude") {}
  void SetUp() override { WorkspaceTest::SetUp(); }
};

TEST_F(SettingsGate, AWorkspaceOfSettingsIsHeld) {
  in_box("echo '{}' >settings.json");
  EXPECT_THAT(held(), ElementsAre("agent-configuration settings.json"));
}

TEST(NamesAbove, CountUnlessTheWorkspaceIsACheckout) {
  const GateRules rules = builtin_gate_rules().value();
  const TempDir temp;
  const UniqueFd plain(::open(temp.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  EXPECT_THAT(names_above(rules, "/home/me/project", plain), IsEmpty());
  EXPECT_THAT(names_above(rules, "/srv/p/.git/modules/lib", plain),
              ElementsAre(Alias{"", ".git/modules/lib"}));
  EXPECT_THAT(names_above(rules, "/home/me/.claude/worktrees/a", plain),
              ElementsAre(Alias{"", ".claude/worktrees/a"}));
  fs::create_directory(temp.path(".git"));
  EXPECT_THAT(names_above(rules, "/home/me/.claude/worktrees/a", plain), IsEmpty());
  EXPECT_THAT(names_above(rules, "/home/me/.husky", plain), ElementsAre(Alias{"", ".husky"}));
}

}  // namespace
}  // namespace glovebox::workspace::test
