#include "workspace/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace glovebox::workspace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Change added_file(std::string path, unsigned mode = 0644) {
  Change change;
  change.kind = ChangeKind::Added;
  change.path = std::move(path);
  change.after.type = NodeType::File;
  change.after.mode = mode;
  return change;
}

class Gate : public testing::Test {
 protected:
  std::vector<std::string> rules_that_hold(const Change& change) {
    const GateContents contents{
        .before = [&](const Change&) -> Result<std::string> { return before; },
        .after = [&](const Change&) -> Result<std::string> { return after; }};
    std::vector<std::string> names;
    for (const Held& held : judge(rules, change, contents, {.origin = "/home/me/project"})) {
      EXPECT_FALSE(held.why.empty());
      names.push_back(held.rule);
    }
    return names;
  }

  GateRules rules = builtin_gate_rules().value();
  std::string before;
  std::string after;
};

TEST_F(Gate, HoldsWhatTheHostWouldRun) {
  for (const char* path : {".git/hooks/pre-commit", "vendor/lib/.git/hooks/post-merge", ".bashrc",
                           ".envrc", ".husky/pre-push", ".vscode/tasks.json",
                           ".idea/runConfigurations/a.xml", ".mcp.json", ".claude/settings.json",
                           ".codex/config.toml", ".cursor/mcp.json", ".github/workflows/ci.yml",
                           ".gitlab-ci.yml", "sub/.git", "docs/HEAD", ".VSCode/Tasks.json"}) {
    EXPECT_THAT(rules_that_hold(added_file(path)), testing::SizeIs(1)) << path;
  }
}

TEST_F(Gate, PassesWhatPeopleReview) {
  for (const char* path :
       {"Makefile", "src/main.c", "package.json", "README.md", ".gitignore", ".git/index",
        ".git/HEAD", ".git/hooks/pre-commit.sample", "build/a.out"}) {
    EXPECT_THAT(rules_that_hold(added_file(path, 0755)), IsEmpty()) << path;
  }
}

TEST_F(Gate, DeletionsAndDirectoriesPass) {
  Change change = added_file(".git/hooks/pre-commit");
  change.kind = ChangeKind::Deleted;
  change.before = change.after;
  change.after = {};
  EXPECT_THAT(rules_that_hold(change), IsEmpty());
  change = added_file(".claude");
  change.after.type = NodeType::Directory;
  EXPECT_THAT(rules_that_hold(change), IsEmpty());
}

TEST_F(Gate, ALinkInPlaceOfAWatchedDirectoryIsHeld) {
  Change change = added_file(".claude");
  change.after.type = NodeType::Symlink;
  change.target_after = "docs";
  EXPECT_THAT(rules_that_hold(change), ElementsAre("agent-configuration"));
}

TEST_F(Gate, GitConfigIsHeldForExecutingKeysOnly) {
  Change change = added_file(".git/config");
  change.kind = ChangeKind::Modified;
  change.before = change.after;
  before = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = x\n";
  after = before + "[branch \"topic\"]\n\tmerge = refs/heads/topic\n";
  EXPECT_THAT(rules_that_hold(change), IsEmpty());
  for (const char* evil :
       {"[core]\n fsmonitor = ./x\n", "[core]\n HooksPath = h\n", "[diff]\n external = x\n",
        "[filter \"f\"]\n clean = x\n", "[core]\n sshCommand = x\n", "[core]\n pager = x\n",
        "[alias]\n st = !x\n", "[include]\n path = ../x\n", "[credential]\n helper = !x\n",
        "[extensions]\n worktreeConfig = true\n", "[broken\n"}) {
    after = before + evil;
    EXPECT_THAT(rules_that_hold(change), ElementsAre("git-config")) << evil;
  }
}

TEST_F(Gate, AttributesAreHeldWhenADriverIsBound) {
  const Change change = added_file(".gitattributes");
  after = "*.c text eol=lf\n";
  EXPECT_THAT(rules_that_hold(change), IsEmpty());
  after = "*.c filter=evil\n";
  EXPECT_THAT(rules_that_hold(change), ElementsAre("git-attributes"));
}

TEST_F(Gate, SetIdSpecialFilesCapabilitiesAndCommands) {
  EXPECT_THAT(rules_that_hold(added_file("tool", 04755)), ElementsAre("set-id"));
  EXPECT_THAT(rules_that_hold(added_file("tool", 02755)), ElementsAre("set-id"));
  EXPECT_THAT(rules_that_hold(added_file("bin/git", 0755)), ElementsAre("executable-on-path"));
  EXPECT_THAT(rules_that_hold(added_file("bin/notes.txt", 0644)), IsEmpty());
  for (const NodeType type : {NodeType::Fifo, NodeType::Socket, NodeType::CharDevice}) {
    Change change = added_file("x");
    change.after.type = type;
    EXPECT_THAT(rules_that_hold(change), ElementsAre("special-file"));
  }
  Change change = added_file("x");
  change.has_capability = true;
  EXPECT_THAT(rules_that_hold(change), ElementsAre("file-capability"));
}

TEST_F(Gate, ASetIdFileWhoseContentChangesIsHeld) {
  Change change = added_file("tool", 04755);
  change.kind = ChangeKind::Modified;
  change.before = change.after;
  change.aspects.content = true;
  EXPECT_THAT(rules_that_hold(change), ElementsAre("set-id"));
  change.aspects = {.xattrs = true};
  EXPECT_THAT(rules_that_hold(change), IsEmpty());
}

TEST(PointsOut, KnowsWhereALinkCanLead) {
  const auto out = [](std::string_view path, std::string_view target) {
    return points_out(path, target, "/home/me/project");
  };
  EXPECT_FALSE(out("a/b", "../c"));
  EXPECT_FALSE(out("a", "b/c"));
  EXPECT_FALSE(out("a", "./b"));
  EXPECT_FALSE(out("a", "/home/me/project/src"));
  EXPECT_TRUE(out("a", "../x"));
  EXPECT_TRUE(out("a/b", "../../x"));
  EXPECT_TRUE(out("a", "/etc/passwd"));
  EXPECT_TRUE(out("a", "/home/me/project-2"));
  EXPECT_TRUE(out("a", "/home/me/project/../x"));
  EXPECT_TRUE(out("a/b", "c/.."));  // c may be a link itself
  EXPECT_TRUE(out("a", ""));
}

TEST(GateRules, StrictReaderRefusesMistakes) {
  const std::string head = "version: 1\nrules:\n  - name: x\n    paths: [\"a\"]\n    why: y\n";
  EXPECT_TRUE(parse_gate_rules(head, "f"));
  for (const char* more :
       {"    wen: any\n", "    when: sometimes\n", "    keys: [a]\n", "    holds: [b]\n",
        "    passes: [a]\n", "    why: z\n", "    except: [\"[\"]\n",
        "  - name: x\n    paths: [b]\n    why: y\n", "  - name: z\n    paths: [b]\n", "extra: 1\n",
        "    paths: a\n", "  - [\n"}) {
    EXPECT_FALSE(parse_gate_rules(head + more, "f")) << more;
  }
  EXPECT_FALSE(parse_gate_rules("version: 2\nrules: []\n", "f"));
  EXPECT_FALSE(parse_gate_rules("", "f"));
}

TEST(GateRules, AProjectCanOnlyAdd) {
  const GateRules builtin = builtin_gate_rules().value();
  const auto more =
      parse_gate_rules("version: 1\nrules:\n  - {name: ours, paths: [deploy.sh], why: z}\n", "f");
  const auto both = extend_gate_rules(builtin, more.value());
  ASSERT_TRUE(both);
  EXPECT_EQ(both->size(), builtin.size() + 1);
  const auto again =
      parse_gate_rules("version: 1\nrules:\n  - {name: git-hooks, paths: [a], why: z}\n", "f");
  EXPECT_FALSE(extend_gate_rules(builtin, again.value()));
}

}  // namespace
}  // namespace glovebox::workspace
