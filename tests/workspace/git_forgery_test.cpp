// Repositories that git would not make: what a box writes by hand so that the host's git does
// something that the gate did not see.
#include "workspace/git_fixture.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace glovebox::workspace::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class GitForgery : public GitGate {};

// A commit with a file that is held, which no ref of the box leads to. Its id is in $evil.
const std::string kEvilCommit =
    "echo evil >.envrc && git add .envrc && evil=$(git commit-tree -p HEAD -m x $(git write-tree))"
    " && git reset -q && rm .envrc && rm -f .git/ORIG_HEAD";

std::string output(const fs::path& dir, const std::string& command) {
  shell(dir, command + " >.output");
  std::string text = read_text(dir / ".output");
  fs::remove(dir / ".output");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

void replace(const fs::path& file, const std::string& from, const std::string& to) {
  std::string text = read_text(file);
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << file;
  text.replace(at, from.size(), to);
  write_file(file, text);
}

TEST_F(GitForgery, ATreeThatTheIndexRemembersWithoutReasonIsHeld) {
  in_box("git status >/dev/null", [](const fs::path& dir) {
    const std::string blob = output(dir, "echo evil | git hash-object -w --stdin");
    const std::string evil =
        output(dir, "printf '100644 blob " + blob + "\\tevil.yml\\n' | git mktree");
    const std::string real = output(dir, "git rev-parse HEAD:.github/workflows");
    replace(dir / ".git/index", from_hex(real), from_hex(evil));
  });
  EXPECT_THAT(held(), ElementsAre("git-unreadable .git/index"));
  EXPECT_THAT(whys_, Contains(HasSubstr("not that of its entries")));
}

TEST_F(GitForgery, AnIndexThatLeadsOutOfTheWorkspaceIsHeld) {
  in_box(
      "git update-index --add --cacheinfo 100644,$(git rev-parse HEAD:src/a.c),--/victim.txt",
      [](const fs::path& dir) { replace(dir / ".git/index", "--/victim.txt", "../victim.txt"); });
  EXPECT_THAT(held(), ElementsAre("git-unreadable .git/index"));
  EXPECT_THAT(whys_, Contains(HasSubstr("a name that git refuses")));
}

TEST_F(GitForgery, EveryRefBesideHeadIsRead) {
  in_box(kEvilCommit + " && echo $evil >.git/MERGE_AUTOSTASH && echo $evil >.git/ANY_THING");
  EXPECT_THAT(held(), UnorderedElementsAre("directory-environment .git/MERGE_AUTOSTASH",
                                           "directory-environment .git/ANY_THING"));
}

// "git merge old" takes .git/old, and warns at most.
TEST_F(GitForgery, AFileThatGitPrefersToABranchIsRead) {
  in_box(kEvilCommit +
         " && echo $evil >.git/old && mkdir .git/feature"
         " && echo \"$evil is a ref\" >.git/feature/x");
  EXPECT_THAT(held(), UnorderedElementsAre("directory-environment .git/old",
                                           "directory-environment .git/feature/x"));
}

TEST_F(GitForgery, AFileThatIsNoRefPasses) {
  in_box(
      "echo 'ref: refs/heads/main\\n\\nwords' >.git/COMMIT_EDITMSG && echo words >.git/MERGE_MSG"
      " && git rev-parse old >.git/SOME_OLD && head -c 40000000 /dev/zero >.git/large");
  EXPECT_THAT(held(), IsEmpty()) << testing::PrintToString(whys_);
}

TEST_F(GitForgery, ARefThatIsPackedTwiceIsHeld) {
  in_box(
      "git pack-refs --all && grep main .git/packed-refs >>.git/packed-refs.2"
      " && cat .git/packed-refs.2 >>.git/packed-refs && rm .git/packed-refs.2");
  EXPECT_THAT(held(), Contains("git-unreadable .git/packed-refs"));
}

TEST_F(GitForgery, ARepositoryThatABoxCompletesIsOne) {
  shell(origin(), "mkdir -p half/objects && echo 'ref: refs/heads/main' >half/HEAD");
  in_box("mkdir -p half/refs/heads && echo '[core]\n fsmonitor = ./x' >half/config");
  EXPECT_THAT(held(), ElementsAre("git-config half/config"));
}

TEST_F(GitForgery, AResolutionThatNamesAFileOfTheHostIsHeld) {
  const std::string id(40, 'a');
  in_box("mkdir -p .git/rr-cache/" + id + " && echo x >.git/rr-cache/" + id +
         "/preimage && printf '" + id + "\\t/etc/passwd\\0' >.git/MERGE_RR");
  EXPECT_THAT(held(), UnorderedElementsAre("git-operation .git/MERGE_RR",
                                           "git-operation .git/rr-cache/" + id + "/preimage"));
}

TEST_F(GitForgery, WhatALogComesFromIsRead) {
  const std::string who = " a <a@b> 1800000000 +0000";
  in_box(kEvilCommit + " && echo \"$evil $(git rev-parse HEAD)" + who +
         "\" >.git/logs/refs/heads/old");
  EXPECT_THAT(held(), ElementsAre("directory-environment .git/logs/refs/heads/old"));
}

TEST_F(GitForgery, WhatAMoveInALogNamesIsRead) {
  // Without a tab, too, and in capital letters.
  in_box(kEvilCommit +
         " && h=$(git rev-parse HEAD) && EVIL=$(echo $evil | tr a-f A-F)"
         " && echo \"$h $h a <a@b> 1800000000 +0000checkout: moving from $EVIL to main\""
         " >>.git/logs/HEAD");
  EXPECT_THAT(held(), ElementsAre("directory-environment .git/logs/HEAD"));
}

TEST_F(GitForgery, AnIndexOfManyPacksInPartsIsHeld) {
  in_box(
      "mkdir .git/objects/pack/multi-pack-index.d"
      " && echo x >.git/objects/pack/multi-pack-index.d/multi-pack-index-chain");
  EXPECT_THAT(held(), ElementsAre("git-believed .git/objects/pack/multi-pack-index.d/"
                                  "multi-pack-index-chain"));
}

TEST_F(GitForgery, ARemovalIsHeldThoughAnotherBranchLacksTheFile) {
  shell(origin(), "git branch none $(git commit-tree -m n $(git rev-parse HEAD:src))");
  in_box("git rm -q --cached .github/workflows/ci.yml && git commit -qm 3");
  EXPECT_THAT(held(), ElementsAre("build-service .git/refs/heads/main"));
}

TEST_F(GitForgery, ASubmoduleMayBeCalledObjects) {
  shell(origin(),
        "git init -q --bare -b main .git/modules/objects && export GIT_DIR=.git/modules/objects"
        " && git update-ref refs/heads/main $(git commit-tree -m 1 $(git write-tree))");
  in_box(
      "export GIT_DIR=.git/modules/objects GIT_INDEX_FILE=/dev/shm/glovebox-index.$$"
      " && printf evil >e && b=$(git hash-object -w e) && rm e"
      " && git update-index --add --cacheinfo 100644,$b,.envrc"
      " && git update-ref refs/heads/main $(git commit-tree -p main -m 2 $(git write-tree))"
      " && rm -f $GIT_INDEX_FILE");
  EXPECT_THAT(held(), ElementsAre("directory-environment .git/modules/objects/refs/heads/main"));
}

TEST_F(GitForgery, EachRefIsToldByItself) {
  in_box(kEvilCommit +
         " && git update-ref refs/heads/main $evil && git tag v1 $evil && git reset -q"
         " && rm -f .git/ORIG_HEAD");
  const std::string main = "directory-environment .git/refs/heads/main";
  EXPECT_THAT(held(), UnorderedElementsAre(main, "directory-environment .git/refs/tags/v1"));
  EXPECT_THAT(held({.accept_paths = {".git/refs/heads/main"}}),
              ElementsAre("directory-environment .git/refs/tags/v1"));
}

TEST_F(GitForgery, WhatCannotBeReadIsToldOfEachRef) {
  in_box(
      "echo c >src/c.c && git add . && git commit -qm 3 && git tag v1 && f=$(git rev-parse "
      "HEAD^{tree})"
      " && rm -f .git/objects/$(echo $f | cut -c1-2)/$(echo $f | cut -c3-)");
  const auto lines = held();
  EXPECT_THAT(lines, Contains("git-unreadable .git/refs/heads/main"));
  EXPECT_THAT(lines, Contains("git-unreadable .git/refs/tags/v1"));
}

// The objects are outside of the workspace.
class PartOfRepository : public GitGate {
 protected:
  PartOfRepository() : GitGate(".git/refs") {}
  void SetUp() override {
    fs::create_directory(temp().path(".git"));
    WorkspaceTest::SetUp();
    fs::create_directory(origin() / "heads");
  }
};

TEST_F(PartOfRepository, WhatIsInItIsHeld) {
  in_box("echo 1111111111111111111111111111111111111111 >heads/main");
  EXPECT_THAT(held(), ElementsAre("git-unreadable heads/main"));
}

}  // namespace
}  // namespace glovebox::workspace::test
