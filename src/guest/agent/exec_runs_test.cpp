// Programs without a shell, and terminals.
#include "guest/agent/agent_test_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include <unistd.h>

namespace glovebox::guest {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

StartRun program(std::vector<std::string> argv) {
  StartRun run;
  run.mode = RunMode::Exec;
  run.argv = std::move(argv);
  return run;
}

StartRun in_terminal(std::string_view code) {
  StartRun run;
  run.mode = RunMode::Fresh;
  run.io = RunIo::Terminal;
  run.rows = 24;
  run.columns = 80;
  run.code = code;
  return run;
}

TEST(ExecRuns, ArgumentsArriveAsTheyAre) {
  TestAgent agent;
  EXPECT_EQ(to_text(agent.exec({"printf", "%s|", "a b", "", "$HOME", "'"})),
            "0 out=[a b||$HOME|'|] err=[]");
}

TEST(ExecRuns, ExitCodesAndSignalsAreReported) {
  TestAgent agent;
  EXPECT_EQ(to_text(agent.exec({"sh", "-c", "exit 77"})), "77 out=[] err=[]");
  EXPECT_EQ(to_text(agent.exec({"sh", "-c", "kill -TERM $$"})), "signal 15 out=[] err=[]");
}

TEST(ExecRuns, WhatCannotBeStartedIsRefusedWithTheReason) {
  TestAgent agent;
  const RunResult missing = agent.exec({"no-such-program"});
  ASSERT_TRUE(missing.refused);
  EXPECT_EQ(missing.refused->os_errno, ENOENT);
  const RunResult directory = agent.exec({"/usr"});
  ASSERT_TRUE(directory.refused);
  EXPECT_EQ(directory.refused->os_errno, EACCES);
  StartRun elsewhere = program({"true"});
  elsewhere.cwd = "no/such/place";
  ASSERT_TRUE(agent.run(elsewhere).refused);
  EXPECT_EQ(to_text(agent.exec({"echo", "on"})), "0 out=[on\n] err=[]");
}

TEST(ExecRuns, EnvironmentIsTheSessionsWithTheRunsOnTop) {
  TestAgent agent;
  EXPECT_EQ(agent.run("export FROM_SHELL=1").end.value, 0U);
  StartRun run = program({"sh", "-c", "echo $BASE $MORE [$FROM_SHELL]; pwd"});
  run.env = {"BASE=changed", "MORE=more"};
  EXPECT_EQ(to_text(agent.run(run)), "0 out=[changed more []\n" + agent.workspace() + "\n] err=[]");
}

TEST(ExecRuns, InputIsStreamedAndOthersInheritNothing) {
  TestAgent agent;
  StartRun run = program({"cat"});
  run.input = RunInput::Streamed;
  EXPECT_EQ(to_text(agent.run(run, "through")), "0 out=[through] err=[]");
  EXPECT_EQ(agent.exec({"ls", "/proc/self/fd"}).output, "0\n1\n2\n3\n");
}

TEST(ExecRuns, RequestsThatMakeNoSenseAreRefused) {
  TestAgent agent;
  StartRun both = program({"true"});
  both.code = "true";
  EXPECT_TRUE(agent.run(both).refused);
  StartRun neither;
  neither.mode = RunMode::Exec;
  EXPECT_TRUE(agent.run(neither).refused);
  StartRun terminal;
  terminal.io = RunIo::Terminal;
  terminal.code = "true";
  EXPECT_TRUE(agent.run(terminal).refused);
}

TEST(TerminalRuns, ProgramSeesATerminalOfThatSize) {
  TestAgent agent;
  const RunResult result = agent.run(in_terminal("tty >/dev/null && stty size; exit 4"));
  EXPECT_EQ(to_text(result), "4 out=[24 80\r\n] err=[]");
}

TEST(TerminalRuns, ResizeArrivesAsASignal) {
  TestAgent agent;
  const Id id = agent.start(
      in_terminal("trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(agent.serve_until(
      [&] { return agent.watched(id).result.output.find("ready") != std::string::npos; }));
  EXPECT_TRUE(agent.link().resize(id, 50, 132));
  EXPECT_THAT(agent.finish(id).output, EndsWith("50 132\r\n"));
}

TEST(TerminalRuns, KeysInterruptAndEndInput) {
  TestAgent agent;
  const Id id = agent.start(in_terminal("trap 'echo interrupted' INT; echo ready; cat; echo end"));
  ASSERT_TRUE(agent.serve_until(
      [&] { return agent.watched(id).result.output.find("ready") != std::string::npos; }));
  ASSERT_EQ(::write(agent.watched(id).input.get(), "typed\n", 6), 6);
  ASSERT_TRUE(agent.serve_until(
      [&] { return agent.watched(id).result.output.find("typed\r\ntyped") != std::string::npos; }));
  ASSERT_EQ(::write(agent.watched(id).input.get(), "\x04", 1), 1);
  const RunResult result = agent.finish(id);
  EXPECT_THAT(result.output, EndsWith("end\r\n"));
  EXPECT_EQ(result.end.value, 0U);
}

TEST(TerminalRuns, ControlCReachesTheForeground) {
  TestAgent agent;
  StartRun run = program({"sh", "-c", "echo ready; exec sleep 100"});
  run.io = RunIo::Terminal;
  const Id id = agent.start(run);
  ASSERT_TRUE(agent.serve_until(
      [&] { return agent.watched(id).result.output.find("ready") != std::string::npos; }));
  ASSERT_EQ(::write(agent.watched(id).input.get(), "\x03", 1), 1);
  EXPECT_EQ(agent.finish(id).end, (RunEnded{EndKind::Signaled, 2, ShellState::None}));
}

TEST(TerminalRuns, MuchOutputArrivesWholeBeforeTheEnd) {
  TestAgent agent;
  const RunResult result = agent.run(in_terminal("seq 1 20000"));
  EXPECT_EQ(result.output.size(), 108894U + 20000U);
  EXPECT_THAT(result.output, EndsWith("\r\n20000\r\n"));
}

TEST(TerminalRuns, TheEndHangsUpOnWhatIsLeft) {
  TestAgent agent;
  EXPECT_EQ(agent.run(in_terminal("sleep 1000 & echo left")).end.value, 0U);
  EXPECT_TRUE(agent.serve_until([&] {
    return agent.run("ps -e -o args= 2>/dev/null | grep -c '[s]leep 1000' || true").output != "1\n";
  }));
}

}  // namespace
}  // namespace glovebox::guest
