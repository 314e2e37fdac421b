#include "workspace/commit/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

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

Change added_link(std::string path, std::string target) {
  Change change = added_file(std::move(path), 0777);
  change.after.type = NodeType::Symlink;
  change.target_after = std::move(target);
  return change;
}

Change deleted_file(std::string path) {
  Change change = added_file(std::move(path));
  change.kind = ChangeKind::Deleted;
  change.before = change.after;
  change.after = {};
  return change;
}

// A directory that was there with the mode `before` (0: it was not there).
Change directory(std::string path, unsigned before, unsigned after) {
  Change change = added_file(std::move(path), after);
  change.after.type = NodeType::Directory;
  if (before == 0) return change;
  change.kind = ChangeKind::Modified;
  change.before = change.after;
  change.before.mode = before;
  change.aspects.mode = true;
  return change;
}

const std::string kObjectId = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";

class Gate : public testing::Test {
 protected:
  std::vector<std::string> rules_that_hold(const Change& change) {
    const GateContents contents{
        .before = [&](const Change&) -> Result<std::string> { return before; },
        .after = [&](const Change&) -> Result<std::string> { return after; }};
    std::vector<std::string> names;
    const std::string origin = "/home/me/project";
    const GateContext context{
        .origin = origin,
        .hooks = find_hook_places(host_config, origin),
        .aliases = aliases,
        .is_there = [&](const std::string& path) { return sources.contains(path); }};
    for (const Held& held : judge(rules, change, contents, context)) {
      EXPECT_FALSE(held.why.empty());
      names.push_back(held.rule);
    }
    return names;
  }

  GateRules rules = builtin_gate_rules().value();
  Result<std::string> host_config = "";  // the original's .git/config
  std::vector<Alias> aliases;
  std::set<std::string> sources;
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

TEST_F(Gate, AWatchedFileThatGoesIsHeld) {
  for (const char* path : {".git/hooks/pre-commit", ".npmrc", ".claude/settings.json"}) {
    EXPECT_THAT(rules_that_hold(deleted_file(path)), testing::SizeIs(1)) << path;
  }
  // Nothing is lost with a program, a link to an interpreter, an operation that has ended.
  for (const char* path : {"node_modules/.bin/tsc", "src/a.c", "venv/lib/x.pth",
                           ".git/rebase-merge/git-rebase-todo", ".git/index", "tool.pyc"}) {
    EXPECT_THAT(rules_that_hold(deleted_file(path)), IsEmpty()) << path;
  }
  before = "[core]\n bare = false\n";
  EXPECT_THAT(rules_that_hold(deleted_file(".git/config")), IsEmpty());
  before = "[protocol]\n allow = never\n";
  EXPECT_THAT(rules_that_hold(deleted_file(".git/config")), ElementsAre("git-config"));
  before = kObjectId + "\n";
  EXPECT_THAT(rules_that_hold(deleted_file(".git/refs/heads/hooks/x")), IsEmpty());
}

TEST_F(Gate, DirectoriesPass) {
  Change change = added_file(".claude");
  change.after.type = NodeType::Directory;
  EXPECT_THAT(rules_that_hold(change), IsEmpty());
}

TEST_F(Gate, ALinkInPlaceOfAWatchedDirectoryIsHeld) {
  Change change = added_file(".claude");
  change.after.type = NodeType::Symlink;
  change.target_after = "docs";
  EXPECT_THAT(rules_that_hold(change), ElementsAre("agent-configuration"));
}

TEST_F(Gate, ALinkInPlaceOfADirectoryOnTheWayIsHeld) {
  EXPECT_THAT(rules_that_hold(added_link(".venv/bin", "../evil")),
              ElementsAre("executable-on-path"));
  EXPECT_THAT(rules_that_hold(added_link("bin", "evil")), ElementsAre("executable-on-path"));
  EXPECT_THAT(rules_that_hold(added_link(".cargo", "c")), ElementsAre("tool-startup"));
  EXPECT_THAT(rules_that_hold(added_link("a/.GitHub", "c")),
              testing::Contains("build-service"));  // letters without case here, too
  for (const char* path : {"src", "src/bin", "lib/a.so", "cargo", "docs/hooks"}) {
    EXPECT_THAT(rules_that_hold(added_link(path, "other")), IsEmpty()) << path;
  }
}

TEST_F(Gate, EveryLinkBelowGitIsHeld) {
  for (const char* path : {".git/modules/sub", ".git/foo", ".git/objects/ab", ".git/refs/heads/x",
                           "mirror.git/hooks", "mirror.git"}) {
    EXPECT_THAT(rules_that_hold(added_link(path, "foo2")), testing::Contains("git-config")) << path;
  }
}

TEST_F(Gate, ARepositoryInsideAnotherIsHeldAtAnyDepth) {
  after = "[core]\n fsmonitor = ./x\n";
  for (const char* path : {".git/foo/config", ".git/foo/config.worktree", ".git/refs/foo/config",
                           "x.git/a/b/config", ".git/modules/a/modules/b/config"}) {
    EXPECT_THAT(rules_that_hold(added_file(path)), ElementsAre("git-config")) << path;
  }
  EXPECT_THAT(rules_that_hold(added_file(".git/foo/hooks/pre-receive", 0755)),
              ElementsAre("git-hooks"));
  for (const char* path :
       {".git/worktrees/wt/commondir", ".git/worktrees/wt/gitdir", ".git/foo/commondir",
        ".git/foo/objects/info/alternates", ".git/remotes/origin", ".git/branches/origin"}) {
    EXPECT_THAT(rules_that_hold(added_file(path)), ElementsAre("git-repository")) << path;
  }
  after = "* filter=evil\n";
  EXPECT_THAT(rules_that_hold(added_file(".git/foo/info/attributes")),
              ElementsAre("git-attributes"));
}

TEST_F(Gate, OrdinaryWorkOfGitPasses) {
  for (const char* path :
       {".git/objects/ab/cdef", ".git/objects/pack/pack-1.pack", ".git/refs/heads/main",
        ".git/refs/remotes/origin/main", ".git/refs/remotes/origin/HEAD", ".git/logs/HEAD",
        ".git/logs/refs/heads/main", ".git/index", ".git/HEAD", ".git/COMMIT_EDITMSG",
        ".git/packed-refs", ".git/ORIG_HEAD", ".git/FETCH_HEAD", ".git/info/exclude",
        ".git/worktrees/wt/HEAD", ".git/modules/lib/index"}) {
    EXPECT_THAT(rules_that_hold(added_file(path)), IsEmpty()) << path;
  }
}

// Such names are held for what they hold, unless that is a branch's id or its log.
TEST_F(Gate, BranchesMayBeCalledLikeSettings) {
  const std::string log = kObjectId + " " + kObjectId + " me <me@x> 1 +0000\tcommit: x\n";
  for (const char* path :
       {".git/refs/heads/config", ".git/refs/heads/hooks/x", ".git/logs/refs/heads/config",
        ".git/logs/refs/heads/hooks/x", ".git/refs/heads/hooks"}) {
    after = kObjectId + "\n";
    EXPECT_THAT(rules_that_hold(added_file(path)), IsEmpty()) << path;
    after = log;
    EXPECT_THAT(rules_that_hold(added_file(path)), IsEmpty()) << path;
    after = kObjectId + "\n[core]\n fsmonitor = ./x\n";
    EXPECT_THAT(rules_that_hold(added_file(path)), testing::SizeIs(1)) << path;
  }
  after = kObjectId + "\n";
  EXPECT_THAT(rules_that_hold(added_file(".git/refs/hooks/x", 0755)), ElementsAre("git-hooks"));
  EXPECT_THAT(rules_that_hold(added_file(".git/hooks/x")), ElementsAre("git-hooks"));
  EXPECT_THAT(rules_that_hold(added_file("a/refs/.git/hooks/x")), ElementsAre("git-hooks"));
}

TEST_F(Gate, TheHostsOwnDirectoryOfHooksIsOne) {
  const Change hook = added_file("tools/hooks/pre-commit", 0755);
  EXPECT_THAT(rules_that_hold(hook), IsEmpty());
  for (const char* value : {"tools/hooks", "./tools//hooks/", "Tools/Hooks", "tools/x/../hooks",
                            "/home/me/project/tools/hooks"}) {
    host_config = fmt::format("[core]\n\thooksPath = {}\n", value);
    EXPECT_THAT(rules_that_hold(hook), ElementsAre("git-hooks-path")) << value;
    EXPECT_THAT(rules_that_hold(added_file("tools/hooks/lib/common.sh")),
                ElementsAre("git-hooks-path"))
        << value;
    EXPECT_THAT(rules_that_hold(added_link("tools", "evil")), testing::Contains("git-hooks-path"));
    EXPECT_THAT(rules_that_hold(added_file("tools/hooks2/x", 0755)), IsEmpty());
    EXPECT_THAT(rules_that_hold(added_file("tools/a.sh", 0755)), IsEmpty());
  }
  for (const char* elsewhere : {"/etc/hooks", "~/hooks", "../tools/hooks", "\"\"", "/dev/null"}) {
    host_config = fmt::format("[core]\n\thooksPath = {}\n", elsewhere);
    EXPECT_THAT(rules_that_hold(hook), IsEmpty()) << elsewhere;
  }
  host_config = "[core]\n\thooksPath = \"tools\n";
  EXPECT_THAT(rules_that_hold(hook), ElementsAre("git-hooks-path"));  // could mean any place
  host_config = fail_os(EIO, "read it");
  EXPECT_THAT(rules_that_hold(hook), ElementsAre("git-hooks-path"));
  host_config = fail_os(ENOENT, "read it");
  EXPECT_THAT(rules_that_hold(hook), IsEmpty());
}

TEST_F(Gate, ADirectoryThatOthersMayWriteIsHeld) {
  for (const unsigned mode : {0777U, 0775U, 0757U, 01777U}) {
    EXPECT_THAT(rules_that_hold(directory(".git/hooks", 0755, mode)),
                ElementsAre("opened-directory"));
  }
  EXPECT_THAT(rules_that_hold(directory(".git", 0775, 0777)), ElementsAre("opened-directory"));
  EXPECT_THAT(rules_that_hold(directory("new", 0, 0777)), ElementsAre("opened-directory"));
  EXPECT_THAT(rules_that_hold(directory("new", 0, 0775)), IsEmpty());  // a umask of 002
  EXPECT_THAT(rules_that_hold(directory("src", 0755, 0700)), IsEmpty());
  EXPECT_THAT(rules_that_hold(directory("src", 0777, 0777)), IsEmpty());
}

TEST_F(Gate, GitConfigIsHeldForExecutingKeysOnly) {
  Change change = added_file(".git/config");
  change.kind = ChangeKind::Modified;
  change.before = change.after;
  before = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = x\n";
  after = before + "[branch \"topic\"]\n\tmerge = refs/heads/topic\n";
  EXPECT_THAT(rules_that_hold(change), IsEmpty());
  for (const char* evil : {"[core]\n fsmonitor = ./x\n",
                           "[core]\n HooksPath = h\n",
                           "[diff]\n external = x\n",
                           "[filter \"f\"]\n clean = x\n",
                           "[core]\n sshCommand = x\n",
                           "[core]\n pager = x\n",
                           "[delta]\n pager = x\n",
                           "[alias]\n st = !x\n",
                           "[include]\n path = ../x\n",
                           "[credential]\n helper = !x\n",
                           "[extensions]\n worktreeConfig = true\n",
                           "[broken\n",
                           "[remote]\n pushDefault = .git/foo\n",
                           "[branch \"m\"]\n remote = .git/foo\n",
                           "[branch \"m\"]\n pushRemote = ../x\n",
                           "[gc]\n recentObjectsHook = x\n",
                           "[submodule \"s\"]\n url = x\n",
                           "[http]\n sslVerify = false\n",
                           "[http \"https://x\"]\n sslCAInfo = x\n",
                           "[imap]\n tunnel = x\n",
                           "[lfs]\n url = x\n",
                           "[lfs \"customtransfer.x\"]\n path = x\n"}) {
    after = before + evil;
    EXPECT_THAT(rules_that_hold(change), ElementsAre("git-config")) << evil;
  }
}

TEST_F(Gate, ABranchMayFollowARemoteThatIsThere) {
  Change change = added_file(".git/config");
  change.kind = ChangeKind::Modified;
  change.before = change.after;
  before = "[remote \"origin\"]\n\turl = x\n[branch \"old\"]\n\tremote = origin\n";
  for (const char* harmless : {"[branch \"topic\"]\n remote = origin\n merge = refs/heads/topic\n",
                               "[branch \"topic\"]\n remote = .\n merge = refs/heads/main\n",
                               "[remote]\n pushDefault = origin\n"}) {
    after = before + harmless;
    EXPECT_THAT(rules_that_hold(change), IsEmpty()) << harmless;
  }
  after = "[remote \"origin\"]\n\turl = x\n";
  EXPECT_THAT(rules_that_hold(change), IsEmpty());  // a branch was deleted
  after = before + "[remote \"evil\"]\n url = y\n[branch \"b\"]\n remote = evil\n";
  EXPECT_THAT(rules_that_hold(change), ElementsAre("git-config"));
}

TEST_F(Gate, HoldsWhatLessCommonToolsObey) {
  for (const char* path :
       {".hg/hgrc", ".jj/repo/config.toml", "lefthook-local.yml", ".lefthook/pre-push/x",
        ".dir-locals-2.el", "opencode.jsonc", ".qwen/settings.json", ".kiro/settings/x.json",
        "mise.local.toml", ".gdbearlyinit"}) {
    EXPECT_THAT(rules_that_hold(added_file(path)), testing::SizeIs(1)) << path;
  }
}

// Names that each stand for a family; some are in the examples of the rules too.
TEST_F(Gate, KnowsAgentsToolchainsAndBuildServices) {
  for (const char* path : {"AGENTS.md",
                           "CLAUDE.md",
                           "docs/GEMINI.md",
                           ".agents/a",
                           ".github/instructions/a.md",
                           ".github/prompts/a.md",
                           ".github/agents/a.md",
                           ".continuerc.json",
                           ".openhands/a",
                           ".huskyrc.json",
                           "prek.toml",
                           "hk.pkl",
                           ".rusty-hook.toml",
                           ".tool-versions",
                           "rust-toolchain",
                           ".bundle/config",
                           "pnpm-workspace.yaml",
                           "bunfig.toml",
                           ".pnp.cjs",
                           ".mvn/extensions.xml",
                           "gradle/wrapper/gradle-wrapper.jar",
                           ".bazelrc",
                           "tools/bazel",
                           ".ghci",
                           ".ocamlinit",
                           ".iex.exs",
                           ".octaverc",
                           ".RData",
                           ".Renviron",
                           ".latexmkrc",
                           ".bsp/a.json",
                           "a.run.xml",
                           ".idea/startup.xml",
                           ".vs/a.json",
                           ".factorypath",
                           "Directory.Build.targets",
                           ".cirrus.yml",
                           ".tekton/a.yaml",
                           ".builds/a.yml",
                           ".readthedocs.yaml",
                           "cloudbuild.yaml",
                           ".git/lazygit.yml",
                           ".git/rebase-merge/git-rebase-todo",
                           ".git/rebase-apply/patch",
                           ".git/sequencer/todo"}) {
    EXPECT_THAT(rules_that_hold(added_file(path)), testing::SizeIs(1)) << path;
  }
}

TEST_F(Gate, APackageIsHeldForItsHooksOnly) {
  Change change = added_file("package.json");
  change.kind = ChangeKind::Modified;
  change.before = change.after;
  before = R"({"name": "a", "lint-staged": {"*.js": "eslint"}})";
  after = R"({"name": "b", "scripts": {"x": "y"}, "lint-staged": {"*.js": "eslint"}})";
  EXPECT_THAT(rules_that_hold(change), IsEmpty());
  after = R"({"name": "a", "lint-staged": {"*.js": "evil"}})";
  EXPECT_THAT(rules_that_hold(change), ElementsAre("package-hooks"));
  after = R"({"name": "a")";
  EXPECT_THAT(rules_that_hold(change), ElementsAre("package-hooks"));
}

// Readers disagree on which of two equal keys counts.
TEST_F(Gate, APackageWithADoubledKeyIsHeld) {
  Change change = added_file("package.json");
  change.kind = ChangeKind::Modified;
  change.before = change.after;
  const std::string doubled = R"({"lint-staged": {"*.js": "evil"}, "lint-staged": {}})";
  before = R"({"lint-staged": {}})";
  after = doubled;
  EXPECT_THAT(rules_that_hold(change), ElementsAre("package-hooks"));
  before = doubled;
  after = "{}";
  EXPECT_THAT(rules_that_hold(change), ElementsAre("package-hooks"));
}

TEST_F(Gate, AModuleIsHeldBesideItsSource) {
  EXPECT_THAT(rules_that_hold(added_file("src/app.so")), IsEmpty());
  sources = {"src/app.py"};
  EXPECT_THAT(rules_that_hold(added_file("src/app.cpython-311.so")),
              ElementsAre("python-extension"));
}

TEST_F(Gate, AnotherNameOfADirectoryCounts) {
  aliases = {{"", "mirror.git"}, {"store", ".git"}};
  EXPECT_THAT(rules_that_hold(added_file("hooks/update")), ElementsAre("git-hooks"));
  EXPECT_THAT(rules_that_hold(added_file("store/rebase-apply/patch")),
              ElementsAre("git-operation"));
  EXPECT_THAT(rules_that_hold(added_file("notes.txt")), IsEmpty());
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
        "    paths: a\n", "  - [\n", "    class: all\n", "    act: pass\n", "    act: gather\n",
        "    gathers: [ci]\n", "    removals: no\n"}) {
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
