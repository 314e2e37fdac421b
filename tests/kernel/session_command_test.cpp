// `glovebox session`: boxes that stay, from the command line, with a service that comes and goes by
// itself.
#include "support/box_test.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace glovebox::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class SessionCommand : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    if (IsSkipped()) return;
    work_ = make_tree("work");
    bin_ = make_directory("bin");
    const fs::path from = fs::path(std::getenv("GLOVEBOX_BINARY")).parent_path();
    for (const char* name : {"glovebox", "glovebox-launcher"}) {
      fs::copy_file(from / name, bin_ + "/" + name);
      fs::permissions(bin_ + "/" + name, fs::perms(0755));
    }
  }

  // The service lives on for some seconds; nothing of a test may.
  void TearDown() override {
    if (!bin_.empty()) {
      session({"stop", "--all"});
      end_service(SIGTERM);
    }
    BoxTest::TearDown();
  }

  void end_service(int signal) {
    const std::string config = state() + "/service.toml";
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::ifstream file(entry.path() / "cmdline");
      std::ostringstream words;
      words << file.rdbuf();  // throws nothing when the process has gone meanwhile
      if (words.str().find(config) == std::string::npos) continue;
      const pid_t pid = std::stoi(name);
      const UniqueFd process = open_pidfd(pid);
      ::kill(pid, signal);
      EXPECT_TRUE(ends_before(process, Clock::now() + std::chrono::seconds(20)));
    }
  }

  std::string state() const { return scratch() + "/.state"; }

  Outcome session(const Words& words, const std::string& input = "") {
    Words all{"session"};
    all.insert(all.end(), words.begin(), words.end());
    return command(all, input);
  }
  Outcome command(const Words& words, const std::string& input = "") {
    Words all{bin_ + "/glovebox"};
    all.insert(all.end(), words.begin(), words.end());
    Settings settings;
    settings.input = input;
    settings.wrapper = wrapper_;
    settings.environment = {"PATH=/usr/bin:/bin", "HOME=/nonexistent", "GLOVEBOX_STATE=" + state()};
    settings.directory = directory_.empty() ? work_ : directory_;
    Running running(all, settings, caller(), "");
    return running.finish();
  }
  Outcome in_session(const std::string& code) { return session({"run", "-c", code}); }

  // The first number or string of that name in a JSON document.
  static std::string field(const std::string& json, const std::string& name) {
    const std::size_t at = json.find("\"" + name + "\":");
    if (at == std::string::npos) return "";
    const std::size_t begin = at + name.size() + 3;
    return json.substr(begin, json.find_first_of(",}", begin) - begin);
  }

  std::string work_, bin_, directory_;
  Words wrapper_;
};

TEST_P(SessionCommand, KeepsItsShellBetweenRuns) {
  ASSERT_THAT(session({"start", "-w", "."}), ended_with(0));
  EXPECT_EQ(in_session("cd /tmp; export x=kept; f() { echo said $x; }").code, 0);
  EXPECT_EQ(in_session("pwd; f").out, "/tmp\nsaid kept\n");
}

TEST_P(SessionCommand, StreamsAndExitCodesAreTheRunsOwn) {
  ASSERT_THAT(session({"start"}), ended_with(0));
  const Outcome outcome = in_session("printf 'a\\0b'; echo wrong >&2; (exit 7)");
  EXPECT_THAT(outcome, ended_with(7));
  EXPECT_EQ(outcome.out, std::string("a\0b", 3));
  EXPECT_EQ(outcome.err, "wrong\n");
  EXPECT_EQ(session({"run", "--", "printf", "%s|", "two words", "$HOME"}).out, "two words|$HOME|");
  EXPECT_EQ(session({"run", "--", "cat"}, "typed\n").out, "typed\n");
}

TEST_P(SessionCommand, VariablesOfOneRunStayInIt) {
  ASSERT_THAT(session({"start"}), ended_with(0));
  EXPECT_EQ(session({"run", "--env", "A=1", "-c", "echo [$A]"}).out, "[1]\n");
  EXPECT_EQ(in_session("echo [$A]").out, "[]\n");
}

TEST_P(SessionCommand, ChangesWaitForACommitAndCanBeUndone) {
  ASSERT_THAT(session({"start", "-w", work_}), ended_with(0));
  EXPECT_EQ(in_session("echo changed >old").code, 0);
  EXPECT_EQ(read_text(work_ + "/old"), "old text\n");
  EXPECT_THAT(session({"diff"}).out, HasSubstr("+changed"));
  EXPECT_THAT(session({"commit"}), ended_with(0));
  EXPECT_EQ(read_text(work_ + "/old"), "changed\n");
  EXPECT_THAT(session({"undo"}), ended_with(0));
  EXPECT_EQ(read_text(work_ + "/old"), "old text\n");
}

TEST_P(SessionCommand, ARiskyChangeIsHeld) {
  ASSERT_THAT(session({"start", "-w", work_}), ended_with(0));
  EXPECT_EQ(in_session("echo x >.envrc").code, 0);
  const Outcome outcome = session({"commit"});
  EXPECT_THAT(outcome, ended_with(1));
  EXPECT_THAT(outcome.out, HasSubstr(".envrc"));
  EXPECT_FALSE(fs::exists(work_ + "/.envrc"));
  EXPECT_THAT(session({"commit", "--accept", ".envrc"}), ended_with(0));
  EXPECT_TRUE(fs::exists(work_ + "/.envrc"));
}

TEST_P(SessionCommand, FilesGoInAndOut) {
  ASSERT_THAT(session({"start", "-w", work_}), ended_with(0));
  const std::string data(300'000, 'x');
  EXPECT_THAT(session({"put", "last", "-", "sub/data"}, data), ended_with(0));
  EXPECT_EQ(in_session("wc -c <sub/data").out, "300000\n");
  EXPECT_EQ(session({"get", "last", "sub/data", "-"}).out, data);
  EXPECT_THAT(session({"get", "last", "sub/data", "copy"}), ended_with(0));
  EXPECT_EQ(read_text(work_ + "/copy"), data);
  EXPECT_THAT(session({"get", "last", "nothing", "-"}), ended_with(125));
  EXPECT_THAT(session({"ls"}).out, HasSubstr("old"));
}

TEST_P(SessionCommand, SessionsAreFoundByNameAndEndWhenTold) {
  ASSERT_THAT(session({"start", "--name", "one"}), ended_with(0));
  ASSERT_THAT(session({"start", "--name", "two"}), ended_with(0));
  EXPECT_EQ(session({"run", "one", "-c", "x=1"}).code, 0);
  EXPECT_EQ(session({"run", "two", "-c", "echo [$x]"}).out, "[]\n");
  EXPECT_THAT(session({"list"}).out, HasSubstr("one"));
  EXPECT_THAT(session({"stop", "one"}), ended_with(0));
  EXPECT_THAT(session({"list"}).out, Not(HasSubstr("one")));
  const Outcome gone = session({"run", "one", "--", "true"});
  EXPECT_THAT(gone, ended_with(125));
  EXPECT_THAT(gone.err, HasSubstr("no session 'one'"));
}

TEST_P(SessionCommand, StopKeepsWhatWasNotCommitted) {
  ASSERT_THAT(session({"start", "-w", work_}), ended_with(0));
  EXPECT_EQ(in_session("echo made >new; echo changed >old").code, 0);
  const Outcome stopped = session({"stop"});
  EXPECT_THAT(stopped, ended_with(0));
  EXPECT_THAT(stopped.err, HasSubstr("2 changes in " + work_ + " are not committed and kept"));
  const std::string layers = command({"layers"}).out;
  EXPECT_THAT(layers, HasSubstr(work_));
  EXPECT_THAT(layers, HasSubstr("session "));
  EXPECT_THAT(command({"diff", "last"}).out, HasSubstr("+made"));
  EXPECT_THAT(command({"commit", layers.substr(0, layers.find(' '))}), ended_with(0));
  EXPECT_EQ(read_text(work_ + "/new"), "made\n");
  EXPECT_THAT(command({"undo"}), ended_with(0));
  EXPECT_FALSE(fs::exists(work_ + "/new"));
}

// Though no run had been there before.
TEST_P(SessionCommand, ARunWithoutALayerIsTheLastAfterASession) {
  ASSERT_THAT(session({"start", "-w", work_}), ended_with(0));
  EXPECT_EQ(in_session("echo made >new").code, 0);
  ASSERT_THAT(session({"stop"}), ended_with(0));
  ASSERT_THAT(command({"run", "-w", work_ + ":ro", "--", "true"}), ended_with(0));
  const Outcome nothing = command({"commit", "last"});
  EXPECT_THAT(nothing, ended_with(125));
  EXPECT_THAT(nothing.err, HasSubstr("the last run changed nothing"));
}

TEST_P(SessionCommand, StopDiscardsOnlyWhenTold) {
  ASSERT_THAT(session({"start", "-w", work_}), ended_with(0));
  EXPECT_EQ(in_session("echo made >new").code, 0);
  EXPECT_THAT(session({"stop", "--discard"}), ended_with(0));
  EXPECT_EQ(command({"layers"}).out, "no layers\n");
}

TEST_P(SessionCommand, WhatWasCommittedLeavesNothingBehind) {
  ASSERT_THAT(session({"start", "-w", work_}), ended_with(0));
  EXPECT_EQ(in_session("echo made >new").code, 0);
  ASSERT_THAT(session({"commit"}), ended_with(0));
  const Outcome stopped = session({"stop"});
  EXPECT_THAT(stopped, ended_with(0));
  EXPECT_EQ(stopped.err, "");
  EXPECT_EQ(command({"layers"}).out, "no layers\n");
}

TEST_P(SessionCommand, AnIdleSessionLeavesItsChangesBehind) {
  ASSERT_THAT(session({"start", "-w", work_, "--idle", "1s"}), ended_with(0));
  EXPECT_EQ(in_session("echo made >new").code, 0);
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  while (command({"layers"}).out == "no layers\n" && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(session({"list"}).out, "");
  EXPECT_THAT(command({"commit", "last"}), ended_with(0));
  EXPECT_EQ(read_text(work_ + "/new"), "made\n");
}

TEST_P(SessionCommand, LastIsTheSessionOfTheWorkspaceHere) {
  const std::string other = make_tree("other");
  ASSERT_THAT(session({"start", "-w", work_}), ended_with(0));
  ASSERT_THAT(session({"start", "-w", other}), ended_with(0));
  EXPECT_EQ(in_session("pwd").out, work_ + "\n");
  EXPECT_THAT(session({"diff"}).err, HasSubstr(work_));
  directory_ = other;
  EXPECT_EQ(in_session("pwd").out, other + "\n");
  directory_ = "/";
  const Outcome nowhere = in_session("pwd");
  EXPECT_THAT(nowhere, ended_with(125));
  EXPECT_THAT(nowhere.err, HasSubstr("no session has a workspace at or above /"));
}

TEST_P(SessionCommand, EveryOutputNamesItsDirectory) {
  ASSERT_THAT(session({"start", "-w", work_}), ended_with(0));
  ASSERT_EQ(in_session("echo x > .envrc").code, 0);
  for (const Words& words : {Words{"diff"}, Words{"commit"}, Words{"commit", "--accept", ".envrc"},
                             Words{"undo"}, Words{"undo"}}) {
    EXPECT_THAT(session(words).err, HasSubstr(", " + work_ + "\n")) << words.front();
  }
}

TEST_P(SessionCommand, RootIsToldAtTheStartWhatIsNotEnforced) {
  ROOT_TIER_ONLY();
  NEEDS(Feature::MemoryCgroup);
  wrapper_ = {"/usr/bin/unshare",
              "--mount",
              "/bin/sh",
              "-c",
              "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"",
              "sh"};
  const Outcome told = session({"start", "-w", "."});
  EXPECT_THAT(told, ended_with(0));
  EXPECT_THAT(told.err, HasSubstr("glovebox: not enforced here: limit.memory: no memory cgroup"));
  wrapper_.clear();
  EXPECT_THAT(session({"stop", "--all"}), ended_with(0));
  end_service(SIGTERM);
  EXPECT_EQ(session({"start", "-w", "."}).err, "");
}

TEST_P(SessionCommand, OfSeveralWorkspacesTheOneHereIsMeant) {
  const std::string other = make_tree("other");
  const std::string third = make_tree("third");
  ASSERT_THAT(session({"start", "-w", other, "-w", work_}), ended_with(0));
  ASSERT_THAT(session({"start", "-w", third}), ended_with(0));
  ASSERT_EQ(in_session("echo here > " + work_ + "/new; echo there > " + other + "/new").code, 0);
  const Outcome diff = session({"diff"});
  EXPECT_THAT(diff.err, HasSubstr(", " + work_ + "\n"));
  EXPECT_THAT(diff.out, HasSubstr("+here"));
  const Outcome commit = session({"commit"});
  EXPECT_THAT(commit, ended_with(0));
  EXPECT_THAT(commit.err, HasSubstr(", " + work_ + "\n"));
  EXPECT_EQ(read_text(work_ + "/new"), "here\n");
  EXPECT_FALSE(fs::exists(other + "/new"));
  const Outcome undo = session({"undo"});
  EXPECT_THAT(undo, ended_with(0));
  EXPECT_THAT(undo.err, HasSubstr(", " + work_ + "\n"));
  EXPECT_FALSE(fs::exists(work_ + "/new"));
  directory_ = other;
  EXPECT_THAT(session({"diff"}).out, HasSubstr("+there"));
  EXPECT_THAT(session({"diff", "--workspace", work_}).err, HasSubstr(", " + work_ + "\n"));
}

TEST_P(SessionCommand, AfterAKillTheRunsAreCountedAndTheChangesAreThere) {
  ASSERT_THAT(session({"start", "-w", work_, "--name", "killed"}), ended_with(0));
  EXPECT_EQ(in_session("echo made >new").code, 0);
  EXPECT_EQ(in_session("true").code, 0);
  const std::string before = session({"report"}).out;
  end_service(SIGKILL);
  const std::string layers = command({"layers"}).out;
  EXPECT_THAT(layers, HasSubstr(work_)) << "without a service";
  EXPECT_THAT(command({"diff", layers.substr(0, layers.find(' '))}).out, HasSubstr("+made"));
  ASSERT_THAT(session({"start", "--name", "next"}), ended_with(0));
  const std::string after = session({"report", "killed"}).out;
  EXPECT_EQ(field(after, "runs"), "2");
  EXPECT_EQ(field(after, "last_run_at"), field(before, "last_run_at"));
  EXPECT_THAT(session({"commit", "killed"}), ended_with(0));
  EXPECT_EQ(read_text(work_ + "/new"), "made\n");
}

TEST_P(SessionCommand, ABindCanHaveALayer) {
  const std::string data = make_directory("data");
  ASSERT_THAT(session({"start", "-w", ".", "--bind", data + ":/b:overlay"}), ended_with(0));
  EXPECT_THAT(in_session("echo bound >/b/new && pwd"), ended_with(0));
  EXPECT_FALSE(fs::exists(data + "/new")) << "before the commit";
  EXPECT_THAT(session({"diff", "--workspace", data}).out, HasSubstr("+bound"));
  EXPECT_THAT(session({"commit", "--workspace", data}), ended_with(0));
  EXPECT_EQ(read_text(data + "/new"), "bound\n");
}

TEST_P(SessionCommand, ADirectoryIsLayeredOnce) {
  const Outcome refused = session({"start", "-w", ".", "--bind", work_ + ":/b:overlay"});
  EXPECT_THAT(refused, ended_with(125));
  EXPECT_THAT(refused.err, HasSubstr(work_ + " is handed in twice with a layer"));
  EXPECT_THAT(session({"start", "-w", ".", "--bind", work_ + ":/b:ro"}), ended_with(0));
}

TEST_P(SessionCommand, AStartTakesTheOptionsOfARun) {
  ASSERT_THAT(session({"start", "-w", ".:discard", "--hostname", "other", "--cwd", "/tmp",
                       "--no-loopback", "--waive", "landlock"}),
              ended_with(0));
  EXPECT_EQ(in_session("hostname; pwd; cat /sys/class/net/lo/operstate 2>/dev/null").out,
            "other\n/tmp\n");
  EXPECT_THAT(in_session("echo gone >" + work_ + "/new"), ended_with(0));
  EXPECT_NE(session({"diff"}).code, 0) << "there is no layer";
  EXPECT_THAT(session({"start", "--waive", "nonsense"}), ended_with(125));
}

TEST_P(SessionCommand, ARunThatTakesTooLongEnds) {
  ASSERT_THAT(session({"start"}), ended_with(0));
  EXPECT_NE(session({"run", "--timeout", "300ms", "-c", "x=kept; sleep 60"}).code, 0);
  EXPECT_EQ(in_session("echo still here").out, "still here\n");
}

TEST_P(SessionCommand, BadWordsAreRefused) {
  EXPECT_THAT(session({"start", "-w", work_ + "/nothing"}), ended_with(125));
  EXPECT_THAT(session({"start", "--deny", "nonsense=1"}), ended_with(125));
  EXPECT_THAT(session({"start", "--cwd", "relative"}), ended_with(125));
  EXPECT_THAT(session({"start", "--resolver", "nonsense", "--allow", "resolve=a.example"}),
              ended_with(125));
  EXPECT_THAT(session({"start", "-p", "8080:x"}).err, HasSubstr("--publish"));
  EXPECT_THAT(session({"run", "--", "true"}).err, HasSubstr("session start"));
  EXPECT_THAT(session({"dance"}), ended_with(125));
}

BOX_TEST_TIERS(SessionCommand);

}  // namespace
}  // namespace glovebox::test
