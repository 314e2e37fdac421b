// How many questions an ordinary install and build asks. The trees have the shape of what the real
// tools write (docs/reference/workspace.md has the numbers of those).
#include "workspace/fixture.h"

#include <gmock/gmock.h>

#include <sys/stat.h>

namespace glovebox::workspace::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class Questions : public WorkspaceTest {
 protected:
  void SetUp() override {
    WorkspaceTest::SetUp();
    fs::create_directories(origin() / ".git");
    write_file(origin() / ".gitignore", "node_modules/\n.venv/\n/target\n/bin/\n");
  }

  void make(const std::string& path, unsigned mode = 0644, const std::string& text = "x\n") {
    fs::create_directories((upper() / path).parent_path());
    write_file(upper() / path, text);
    ::chmod((upper() / path).c_str(), mode);
  }

  void link(const std::string& path, const std::string& target) {
    fs::create_directories((upper() / path).parent_path());
    fs::create_symlink(target, upper() / path);
  }

  std::vector<std::string> asked(const Selection& selection = {}) {
    std::vector<std::string> lines;
    for (const Held& held : commit_all(selection, rules_).held) {
      lines.push_back(held.rule + " " + held.path);
    }
    return lines;
  }

  GateRules rules_ = builtin_gate_rules().value();
};

TEST_F(Questions, AnInstallOfNodePackagesIsOne) {
  fs::create_directories(origin() / "node_modules/.bin");  // not the first install
  begin();
  for (const char* name : {"tsc", "eslint", "vite"}) {
    link(std::string("node_modules/.bin/") + name, std::string("../") + name + "/bin.js");
    make(std::string("node_modules/") + name + "/bin.js", 0755);
    make(std::string("node_modules/") + name + "/.github/workflows/ci.yml");
    make(std::string("node_modules/") + name + "/AGENTS.md");
    make(std::string("node_modules/") + name + "/.npmrc");
  }
  make("package-lock.json");
  EXPECT_THAT(asked(), ElementsAre("installed-packages node_modules"));
  EXPECT_THAT(asked({.accept_rules = {"installed-packages"}}), IsEmpty());
  EXPECT_TRUE(fs::is_symlink(origin() / "node_modules/.bin/tsc"));
}

TEST_F(Questions, AVirtualEnvironmentIsOne) {
  begin();
  link(".venv/bin/python3", "/usr/bin/python3");
  link(".venv/bin/python", "python3");
  make(".venv/bin/pip", 0755);
  make(".venv/lib/python3.11/site-packages/distutils-precedence.pth");
  make(".venv/lib/python3.11/site-packages/pip/__pycache__/x.cpython-311.pyc");
  make("app.py");
  EXPECT_THAT(asked(), ElementsAre("installed-packages .venv"));
  // A link to anything else than an interpreter is a question of its own.
  link(".venv/lib/keys", "/home/me/.ssh");
  EXPECT_THAT(asked(), SizeIs(2));
}

TEST_F(Questions, WhatGitDoesNotIgnoreIsToldByItself) {
  fs::create_directories(origin() / "vendor/tool");
  begin();
  make("vendor/tool/.envrc");
  make("node_modules/a/.envrc");
  EXPECT_THAT(asked(), ElementsAre("installed-packages node_modules/a/.envrc",
                                   "directory-environment vendor/tool/.envrc"));
}

TEST_F(Questions, ANewDirectoryIsToldAsOne) {
  begin();
  make("web/.vscode/tasks.json");
  make("web/.envrc");
  make("web/AGENTS.md");
  make("web/src/a.c");
  EXPECT_THAT(asked(), ElementsAre("agent-instructions, directory-environment, editor web"));
  const CommitResult result = commit_all({}, rules_);
  EXPECT_THAT(result.held[0].paths,
              ElementsAre("web/.envrc", "web/.vscode/tasks.json", "web/AGENTS.md"));
  // What git obeys is never told together with the rest.
  make("web/.husky/pre-commit");
  EXPECT_THAT(asked(), SizeIs(2));
}

TEST_F(Questions, BuildsOfCompiledLanguagesAskAtMostOnce) {
  begin();
  make("target/debug/app", 0755);  // cargo
  make("target/debug/build/x-1/build-script-build", 0755);
  make("target/classes/App.class");    // maven
  make("build/CMakeFiles/x.dir/a.o");  // cmake
  make("build/app", 0755);
  make("bin/app", 0755);  // go build -o bin/
  EXPECT_THAT(asked(), ElementsAre("installed-packages bin/app"));
}

TEST_F(Questions, BytecodeStaysBehind) {
  write_file(origin() / "app.py", "print(1)\n");
  begin();
  make("__pycache__/app.cpython-311.pyc", 0644, std::string("\xa7\r\r\n\1\0\0\0evil", 12));
  make("notes.txt");
  const CommitResult result = commit_all({}, rules_);
  EXPECT_FALSE(result.is_refused());
  ASSERT_EQ(result.left_out.size(), 1U);
  EXPECT_THAT(result.left_out[0].paths, ElementsAre("__pycache__/app.cpython-311.pyc"));
  EXPECT_TRUE(fs::exists(origin() / "notes.txt"));
  EXPECT_FALSE(fs::exists(origin() / "__pycache__"));
  // Who wants it says so.
  EXPECT_THAT(commit_all({.accept_rules = {"python-bytecode"}}, rules_).left_out, IsEmpty());
  EXPECT_TRUE(fs::exists(origin() / "__pycache__/app.cpython-311.pyc"));
}

TEST_F(Questions, ModulesThatStandInForASourceAreHeld) {
  write_file(origin() / "app.py", "print(1)\n");
  begin();
  make("app.cpython-311-x86_64-linux-gnu.so");
  make("other.so");
  make("tool.pyc");
  EXPECT_THAT(asked(), ElementsAre("python-extension app.cpython-311-x86_64-linux-gnu.so",
                                   "python-bytecode-alone tool.pyc"));
}

TEST_F(Questions, AWatchedFileThatGoesIsHeld) {
  write_file(origin() / ".npmrc", "ignore-scripts=true\n");
  write_file(origin() / "notes.txt", "x\n");
  begin();
  in_overlay([](const fs::path& dir) {
    fs::remove(dir / ".npmrc");
    fs::remove(dir / "notes.txt");
  });
  EXPECT_THAT(asked(), ElementsAre("tool-startup .npmrc"));
  EXPECT_THAT(asked({.accept_classes = {"start-up"}}), IsEmpty());
  EXPECT_FALSE(fs::exists(origin() / ".npmrc"));
}

TEST_F(Questions, AClassPassesAsAWhole) {
  begin();
  make(".github/workflows/ci.yml");
  make(".cirrus.yml");
  make(".envrc");
  EXPECT_THAT(asked({.accept_classes = {"ci"}}), ElementsAre("directory-environment .envrc"));
  const auto original = layer().open_original();
  CommitOptions options;
  options.selection.accept_classes = {"everything"};
  EXPECT_FALSE(commit(layer(), *original, options));
}

}  // namespace
}  // namespace glovebox::workspace::test
