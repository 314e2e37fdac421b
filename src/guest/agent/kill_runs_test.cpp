// Interrupting and killing runs: the whole tree, within the grace, with the session usable after.
#include "guest/agent/agent_test_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>

namespace glovebox::guest {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class KillRuns : public ::testing::TestWithParam<std::string> {
 protected:
  KillRuns() : agent_(options()) {}

  static TestAgent::Options options() {
    TestAgent::Options options;
    options.shells = {GetParam()};
    return options;
  }

  // Starts `before`, then prints "ready", then goes on with `code`; returns once it is ready.
  Id start_ready(std::string_view code, RunMode mode = RunMode::Shell,
                 std::string_view before = ":") {
    StartRun run;
    run.mode = mode;
    run.code = before;
    run.code.append("; echo ready; ").append(code);
    const Id id = agent_.start(run);
    EXPECT_TRUE(agent_.serve_until(
        [&] { return agent_.watched(id).result.output.find("ready\n") != std::string::npos; }));
    // What comes after "ready" takes a moment to be under way.
    std::this_thread::sleep_for(milliseconds(60));
    return id;
  }
  RunResult kill(Id id, milliseconds grace) {
    EXPECT_TRUE(agent_.link().kill_run(id, grace));
    return agent_.finish(id);
  }
  // Processes of the box with this word among their arguments.
  std::string count_of(const std::string& word) {
    // The bracket keeps the search itself out of what it finds.
    const std::string search = fmt::format("grep -l -z -x '[{}]{}' /proc/[0-9]*/cmdline | wc -l",
                                           word.substr(0, 1), word.substr(1));
    return agent_.exec({"sh", "-c", search}).output;
  }

  TestAgent agent_;
};

INSTANTIATE_TEST_SUITE_P(Shells, KillRuns, ::testing::Values("/bin/bash", "/bin/dash"),
                         [](const auto& shell) {
                           return shell.param == "/bin/bash" ? "Bash" : "Dash";
                         });

TEST_P(KillRuns, ProgramIsInterruptedAndTheShellKept) {
  EXPECT_EQ(agent_.run("x=kept").end.value, 0U);
  const RunResult result = kill(start_ready("sleep 7001; echo not reached"), milliseconds(3000));
  EXPECT_EQ(result.end, (RunEnded{EndKind::Exited, 130, ShellState::Kept}));
  EXPECT_EQ(result.output, "ready\n");
  EXPECT_EQ(agent_.run("echo $x").output, "kept\n");
  EXPECT_EQ(count_of("7001"), "0\n");
}

TEST_P(KillRuns, BuiltinLoopIsInterruptedAndTheShellKept) {
  EXPECT_EQ(agent_.run("x=kept; f() { while :; do :; done; }").end.value, 0U);
  for (const char* code : {"while :; do :; done; echo no", "f; echo no\necho no",
                           "eval 'eval f; echo no'; echo no", "y=$(sleep 7002; echo a); echo no",
                           "sleep 7002 | cat; echo no", "read x < fifo_nobody_writes; echo no"}) {
    if (std::string_view(code).find("fifo") != std::string_view::npos) {
      EXPECT_EQ(agent_.run("mkfifo fifo_nobody_writes").end.value, 0U);
    }
    const RunResult result = kill(start_ready(code), milliseconds(3000));
    EXPECT_EQ(result.end.shell, ShellState::Kept) << code;
    EXPECT_EQ(result.end.value, 130U) << code;
    EXPECT_EQ(result.output, "ready\n") << code;
  }
  EXPECT_EQ(agent_.run("echo $x").output, "kept\n");
}

TEST_P(KillRuns, SignalIntThrowsTheShellBack) {
  const Id id = start_ready("while :; do :; done; echo no");
  EXPECT_TRUE(agent_.link().signal_run(id, SIGINT));
  EXPECT_EQ(to_text(agent_.finish(id)).substr(0, 8), "130 kept");
}

// The program is started by the shell while it is being interrupted, as one whose fork was under
// way would be.
TEST_P(KillRuns, ProgramStartedDuringAnInterruptHearsOfItToo) {
  const Id id =
      start_ready("sleep 7004", RunMode::Shell,
                  "trap 'perl -e \"fork or exec qw(sleep 7005)\"; trap - INT; kill -INT $$' INT");
  EXPECT_TRUE(agent_.link().signal_run(id, SIGINT));
  EXPECT_EQ(to_text(agent_.finish(id)).substr(0, 8), "130 kept");
  std::string left;
  for (int looks = 0; looks < 1000 && left != "0\n"; ++looks) left = count_of("7005");
  EXPECT_EQ(left, "0\n");
}

TEST_P(KillRuns, DaemonStartedDuringAnInterruptIsLeftAlone) {
  const Id id = start_ready("sleep 7006", RunMode::Shell,
                            "trap 'setsid -f sh -c \"echo >up; exec sleep 7007\"; "
                            "until [ -s up ]; do :; done; trap - INT; kill -INT $$' INT");
  EXPECT_TRUE(agent_.link().signal_run(id, SIGINT));
  EXPECT_EQ(to_text(agent_.finish(id)).substr(0, 8), "130 kept");
  EXPECT_EQ(agent_.run("echo next").output, "next\n");
  EXPECT_EQ(count_of("7007"), "1\n");
}

TEST_P(KillRuns, RunThatHandlesInterruptsGoesOnUntilKilled) {
  const Id id = start_ready("while :; do sleep 0.05; done", RunMode::Shell, "trap 'echo mine' INT");
  // Again and again: bash drops an interrupt while it waits for a child that just ended by itself.
  ASSERT_TRUE(agent_.serve_until([&] {
    if (agent_.watched(id).result.output.find("mine") != std::string::npos) return true;
    EXPECT_TRUE(agent_.link().signal_run(id, SIGINT));
    return false;
  }));
  EXPECT_FALSE(agent_.watched(id).over);
  EXPECT_EQ(kill(id, milliseconds(300)).end, (RunEnded{EndKind::Signaled, 9, ShellState::Fresh}));
  EXPECT_EQ(agent_.run("echo usable").output, "usable\n");
}

TEST_P(KillRuns, LoopThatIgnoresEverythingEndsInAFreshShellWithinTheGrace) {
  const Id id = start_ready("while :; do :; done", RunMode::Shell, "trap '' INT TERM HUP");
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(kill(id, milliseconds(300)).end, (RunEnded{EndKind::Signaled, 9, ShellState::Fresh}));
  EXPECT_LT(std::chrono::steady_clock::now() - before, milliseconds(10'000));
  EXPECT_EQ(agent_.run("echo usable").output, "usable\n");
}

TEST_P(KillRuns, TreeThatIgnoresSignalsIsKilledAndTheShellKept) {
  EXPECT_EQ(agent_.run("x=kept").end.value, 0U);
  const Id id = start_ready(
      "sh -c 'trap \"\" INT TERM; sleep 0.1; sh -c \"trap \\\"\\\" INT TERM; sleep 7003; sleep "
      "7003\"; "
      "sleep 7003'; echo no");
  const RunResult result = kill(id, milliseconds(300));
  EXPECT_EQ(result.end.kind, EndKind::Exited);
  EXPECT_EQ(result.end.shell, ShellState::Kept);
  EXPECT_EQ(agent_.run("echo $x").output, "kept\n");
  EXPECT_EQ(count_of("7003"), "0\n");
}

TEST_P(KillRuns, BackgroundAndDaemonisedProcessesOfTheRunDieWithIt) {
  const Id id = start_ready(
      "sleep 7004 & (setsid sleep 7004 &) ; setsid sh -c 'sleep 7004 & sleep 7004' & sleep 7004");
  const RunResult result = kill(id, milliseconds(600));
  EXPECT_EQ(result.end.shell, ShellState::Kept);
  EXPECT_EQ(count_of("7004"), "0\n");
}

TEST_P(KillRuns, BackgroundJobsOfEarlierRunsLiveOn) {
  EXPECT_EQ(agent_.run("sleep 7005 >/dev/null 2>&1 &").end.value, 0U);
  EXPECT_EQ(kill(start_ready("sleep 7006 & sleep 7006"), milliseconds(300)).end.shell,
            ShellState::Kept);
  EXPECT_EQ(count_of("7005"), "1\n");
  EXPECT_EQ(count_of("7006"), "0\n");
}

TEST_P(KillRuns, FreshRunsAreKilledAsATreeAndTheShellDoesNotNotice) {
  const Id id = start_ready("sleep 7007 & (setsid sleep 7007 &); sleep 7007", RunMode::Fresh,
                            "trap '' INT TERM");
  // By the signal, or by itself when it saw its child killed.
  EXPECT_NE(kill(id, milliseconds(300)).end.value, 0U);
  EXPECT_EQ(count_of("7007"), "0\n");
  EXPECT_EQ(to_text(agent_.run("echo on")), "0 kept out=[on\n] err=[]");
}

TEST_P(KillRuns, ProgramThatForksWhileItIsKilledIsCaught) {
  const Id id = start_ready("f() { sleep 7008; }; while :; do f & sleep 0.01; done", RunMode::Fresh,
                            "trap '' INT TERM");
  EXPECT_NE(kill(id, milliseconds(150)).end.value, 0U);
  EXPECT_EQ(count_of("7008"), "0\n");
}

TEST_P(KillRuns, InterruptsAtAnyMomentNeverLoseARun) {
  for (int i = 0; i < 150; ++i) {
    StartRun run;
    run.code = "x=" + std::to_string(i);
    const Id id = agent_.start(run);
    if (i % 3 != 0) agent_.serve_until([&] { return agent_.watched(id).begun; });
    if (i % 2 != 0) std::this_thread::sleep_for(std::chrono::microseconds(10 * i));
    (void)agent_.link().kill_run(id, milliseconds(2000));
    const RunResult result = agent_.finish(id);
    ASSERT_EQ(result.end.shell, ShellState::Kept) << i << ": " << to_text(result);
  }
  EXPECT_EQ(to_text(agent_.run("echo fine")), "0 kept out=[fine\n] err=[]");
}

}  // namespace
}  // namespace glovebox::guest
