// A workspace with a repository that the host's git made.
#pragma once

#include "workspace/fixture.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace glovebox::workspace::test {

// Commands of a shell in `dir`, with a git that obeys nothing of the user's. They must succeed.
inline void shell(const fs::path& dir, const std::string& commands) {
  const std::string line =
      "cd '" + dir.string() +
      "' && export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b "
      "GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_COUNT=2 "
      "GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' GIT_CONFIG_KEY_1=gc.auto "
      "GIT_CONFIG_VALUE_1=0 && set -e && { " +
      commands + "; }";
  ASSERT_EQ(std::system(line.c_str()), 0) << commands;
}

class GitGate : public WorkspaceTest {
 protected:
  explicit GitGate(std::string name = "origin") : WorkspaceTest(Ground::Memory, std::move(name)) {}

  // A repository with a workflow of its own, two commits, and a branch at the first.
  void SetUp() override {
    WorkspaceTest::SetUp();
    shell(
        origin(),
        "git init -q -b main && mkdir -p .github/workflows src && echo ci >.github/workflows/ci.yml"
        " && echo a >src/a.c && git add . && git commit -qm 1 && git branch old"
        " && echo b >src/a.c && echo ci2 >.github/workflows/ci.yml && git commit -qam 2");
  }

  // Afterwards `edit` may write what git would not.
  void in_box(
      const std::string& commands,
      const std::function<void(const fs::path&)>& edit = [](const fs::path&) {}) {
    begin();
    in_overlay([&](const fs::path& dir) {
      shell(dir, commands);
      edit(dir);
    });
  }

  // "build-service .git/refs/heads/main", one for each question.
  std::vector<std::string> held(const Selection& selection = {}) {
    std::vector<std::string> lines;
    whys_.clear();
    const CommitResult result = commit_all(selection, rules_);
    EXPECT_THAT(result.conflicts, testing::IsEmpty());
    for (const Held& one : result.held) {
      lines.push_back(one.rule + " " + one.path);
      whys_.push_back(one.why);
    }
    return lines;
  }

  GateRules rules_ = builtin_gate_rules().value();
  std::vector<std::string> whys_;
};

}  // namespace glovebox::workspace::test
