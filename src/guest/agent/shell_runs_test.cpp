// What a persistent shell survives, and what it keeps. Each test runs with bash and with dash.
#include "guest/agent/agent_test_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace glovebox::guest {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

StartRun code_with_env(std::string_view code, std::vector<std::string> env) {
  StartRun run;
  run.code = code;
  run.env = std::move(env);
  return run;
}

class ShellRuns : public ::testing::TestWithParam<std::string> {
 protected:
  ShellRuns() : agent_(options()) {}

  static TestAgent::Options options() {
    TestAgent::Options options;
    options.shells = {"/nonexistent/bash", GetParam()};
    return options;
  }
  static bool is_bash() { return GetParam() == "/bin/bash"; }
  std::string said(std::string_view code) { return to_text(agent_.run(code)); }

  TestAgent agent_;
};

INSTANTIATE_TEST_SUITE_P(Shells, ShellRuns, ::testing::Values("/bin/bash", "/bin/dash"),
                         [](const auto& shell) {
                           return shell.param == "/bin/bash" ? "Bash" : "Dash";
                         });

TEST_P(ShellRuns, StreamsAreSeparate) {
  EXPECT_EQ(said("echo out; echo err >&2"), "0 kept out=[out\n] err=[err\n]");
}

TEST_P(ShellRuns, TheFirstShellThatIsThereIsUsed) {
  EXPECT_EQ(agent_.shell(), is_bash() ? ShellKind::Bash : ShellKind::Sh);
}

TEST_P(ShellRuns, DirectoryVariablesAndFunctionsPersist) {
  EXPECT_EQ(said("cd /usr; x=5; export y=6; f() { echo \"f $1 $x\"; }"), "0 kept out=[] err=[]");
  EXPECT_EQ(said("f 1; pwd; sh -c 'echo $x$y'"), "0 kept out=[f 1 5\n/usr\n6\n] err=[]");
}

TEST_P(ShellRuns, StartsInTheWorkspaceWithTheSessionsEnvironment) {
  EXPECT_EQ(said("pwd; sh -c 'echo $BASE'"),
            "0 kept out=[" + agent_.workspace() + "\nbase\n] err=[]");
}

TEST_P(ShellRuns, ExitCodeOfTheLastCommand) {
  EXPECT_EQ(said("false"), "1 kept out=[] err=[]");
  EXPECT_EQ(said("(exit 9)"), "9 kept out=[] err=[]");
  EXPECT_EQ(said("true"), "0 kept out=[] err=[]");
  EXPECT_EQ(said(""), "0 kept out=[] err=[]");
}

TEST_P(ShellRuns, CatReadsNothingOfTheDriver) {
  EXPECT_EQ(said("cat"), "0 kept out=[] err=[]");
  EXPECT_EQ(said("read x; echo $?"), "0 kept out=[1\n] err=[]");
  EXPECT_EQ(said("sh -c cat; echo after"), "0 kept out=[after\n] err=[]");
}

TEST_P(ShellRuns, UnterminatedQuoteEndsWithTwoAndKeepsTheShell) {
  EXPECT_EQ(said("x=kept"), "0 kept out=[] err=[]");
  for (const char* code : {"echo \"unterminated", "echo 'it", "if", "echo hi; )", "cat <<END | (",
                           "for", "x=`", "case x in", "echo ${", "echo $(("}) {
    const RunResult result = agent_.run(code);
    EXPECT_THAT(to_text(result), StartsWith("2 kept out=[")) << code;
    EXPECT_NE(result.error, "") << code;
  }
  EXPECT_EQ(said("echo $x"), "0 kept out=[kept\n] err=[]");
}

// bash 5.2 damages its own memory here, and may or may not survive it.
TEST_P(ShellRuns, UnterminatedSubstitutionLeavesTheSessionUsable) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_NE(agent_.run("echo $(").end.value, 0U);
    agent_.run("case x in");
  }
  agent_.run("true");
  EXPECT_EQ(agent_.run("echo usable").output, "usable\n");
}

TEST_P(ShellRuns, ExitEndsTheRunAndTheNextShellIsFresh) {
  EXPECT_EQ(said("x=lost; echo before; exit 7"), "7 fresh out=[before\n] err=[]");
  EXPECT_EQ(said("echo [$x]; pwd"), "0 kept out=[[]\n" + agent_.workspace() + "\n] err=[]");
}

TEST_P(ShellRuns, ExecEndsTheShellWithTheProgramsStatus) {
  EXPECT_EQ(said("exec sh -c 'echo execed; exit 5'"), "5 fresh out=[execed\n] err=[]");
  EXPECT_EQ(said("echo next"), "0 kept out=[next\n] err=[]");
}

TEST_P(ShellRuns, ErrexitEndsTheShell) {
  EXPECT_EQ(said("set -e; false; echo not reached"), "1 fresh out=[] err=[]");
  EXPECT_EQ(said("set -e"), "0 kept out=[] err=[]");
  EXPECT_EQ(said("echo one; (exit 4); echo two"), "4 fresh out=[one\n] err=[]");
  EXPECT_EQ(said("false; echo fine"), "0 kept out=[fine\n] err=[]");
}

TEST_P(ShellRuns, TrapOnExitPrintsIntoTheRunThatExits) {
  EXPECT_EQ(said("trap 'echo bye; cat' EXIT"), "0 kept out=[] err=[]");
  EXPECT_EQ(said("trap 'echo bye' EXIT; exit 3"), "3 fresh out=[bye\n] err=[]");
  EXPECT_EQ(said("trap 'echo bye; exit 8' EXIT; exit 3"), "8 fresh out=[bye\n] err=[]");
}

TEST_P(ShellRuns, OutputWithoutNewlineAndBinaryOutputComeThrough) {
  EXPECT_EQ(said("printf 'no newline'"), "0 kept out=[no newline] err=[]");
  const RunResult binary = agent_.run(R"(printf '\000\377\001\n\000')");
  EXPECT_EQ(binary.output, std::string("\x00\xff\x01\n\x00", 5));
}

TEST_P(ShellRuns, NothingPrintedEndsARun) {
  // Everything the driver itself could have written, on both streams.
  const RunResult result = agent_.run(
      "i=0; while [ $i -lt 200 ]; do echo \"$i 0\"; echo \"0000000000000000 0\" >&2; "
      "i=$((i+1)); done; echo end");
  EXPECT_EQ(result.end, (RunEnded{EndKind::Exited, 0, ShellState::Kept}));
  EXPECT_THAT(result.output, EndsWith("\nend\n"));
}

TEST_P(ShellRuns, ProgramsInheritNoDescriptorOfTheDriver) {
  const RunResult result = agent_.run("ls /proc/self/fd");
  // 3 is the directory that ls itself has opened.
  EXPECT_EQ(result.output, "0\n1\n2\n3\n");
}

TEST_P(ShellRuns, ProgramsCannotForgeTheEndOnAnyDescriptor) {
  const RunResult result = agent_.run(
      "sh -c 'for n in 3 4 5 6 7 8 9; do (eval \"echo 0 0 >&$n\") 2>/dev/null; done'; "
      "env bash -c 'for n in {10..300}; do echo 0 0 >&$n; done' 2>/dev/null; echo really the end");
  EXPECT_EQ(to_text(result), "0 kept out=[really the end\n] err=[]");
}

TEST_P(ShellRuns, RunEndsAlthoughABackgroundJobHoldsThePipe) {
  const Id id = agent_.start(code_with_env("(sleep 0.3; echo late) & echo early", {}));
  ASSERT_TRUE(agent_.serve_until([&] { return agent_.watched(id).over; }));
  EXPECT_EQ(agent_.watched(id).result.output, "early\n");
  EXPECT_FALSE(agent_.watched(id).output_ended);
  // Who keeps reading gets the rest, and no other run does.
  EXPECT_EQ(said("echo other; sleep 0.5"), "0 kept out=[other\n] err=[]");
  ASSERT_TRUE(agent_.serve_until([&] { return agent_.watched(id).output_ended; }));
  EXPECT_EQ(agent_.watched(id).result.output, "early\nlate\n");
}

TEST_P(ShellRuns, AShortRunComesWholeAndItsPipesAreUsedAgain) {
  // The first runs find a shell that is still starting, or a machine that is busy.
  bool came_whole = false;
  for (int i = 0; i < 200 && !came_whole; ++i) {
    const Id id = agent_.start(code_with_env("echo out; echo err >&2; false", {}));
    ASSERT_TRUE(agent_.serve_until([&] { return agent_.watched(id).over; }));
    came_whole = agent_.watched(id).came_whole;
    EXPECT_EQ(to_text(agent_.finish(id)), "1 kept out=[out\n] err=[err\n]");
  }
  EXPECT_TRUE(came_whole);
}

// Between two runs the shell still has the pipes of the first.
TEST_P(ShellRuns, WhatIsPrintedBetweenTwoRunsBelongsToNone) {
  EXPECT_EQ(said("trap 'echo between; echo too >&2' USR1; echo pid $$ > pid"),
            "0 kept out=[] err=[]");
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(said("echo run"), "0 kept out=[run\n] err=[]");
    // More than a pipe holds in the end, if it were not read.
    EXPECT_EQ(agent_.exec({"sh", "-c", "read x n < pid; for i in 1 2 3; do kill -USR1 $n; done"})
                  .end.value,
              0U);
  }
}

TEST_P(ShellRuns, OutputThatFillsAFrameAndMoreComesThrough) {
  for (const int size : {100, 16 << 10, (16 << 10) + 1, 32 << 10, (32 << 10) + 1, 60'000}) {
    const RunResult result =
        agent_.run(fmt::format("printf '%{}d' 7; printf '%{}d' 8 >&2", size, size));
    EXPECT_TRUE(result.output == fmt::format("{:>{}}", 7, size)) << size;
    EXPECT_TRUE(result.error == fmt::format("{:>{}}", 8, size)) << size;
  }
}

TEST_P(ShellRuns, OutputPipesEndWithTheRun) {
  const Id id = agent_.start(code_with_env("echo hi", {}));
  ASSERT_TRUE(agent_.serve_until(
      [&] { return agent_.watched(id).output_ended && agent_.watched(id).error_ended; }));
}

TEST_P(ShellRuns, EnvironmentOfARunIsForThatRunAlone) {
  EXPECT_EQ(said("A=old"), "0 kept out=[] err=[]");
  const RunResult result = agent_.run(
      code_with_env("echo $A; sh -c 'echo $A $B'; export C=stays; cd /usr; A=changed; D=stays",
                    {"A=it's \"new\" $HOME", "B=b"}));
  EXPECT_EQ(to_text(result), "0 kept out=[it's \"new\" $HOME\nit's \"new\" $HOME b\n] err=[]");
  EXPECT_EQ(said("echo A=$A B=$B C=$C D=$D; pwd"),
            "0 kept out=[A=old B= C=stays D=stays\n/usr\n] err=[]");
}

TEST_P(ShellRuns, EnvironmentThatAShellCannotAssignIsRefused) {
  for (const char* entry : {"A-B=1", "1A=1", "=x", "novalue", "A B=1", "A;touch x=1"}) {
    const RunResult result = agent_.run(code_with_env("echo ran", {entry}));
    EXPECT_TRUE(result.refused) << entry;
  }
  EXPECT_EQ(said("echo fine"), "0 kept out=[fine\n] err=[]");
}

TEST_P(ShellRuns, ReadonlyVariableInARunsEnvironmentIsSaidAloud) {
  EXPECT_EQ(said("readonly RO=1"), "0 kept out=[] err=[]");
  EXPECT_NE(agent_.run(code_with_env("echo $RO", {"RO=2"})).error, "");
  EXPECT_EQ(said("echo $RO"), "0 kept out=[1\n] err=[]");
}

TEST_P(ShellRuns, CodeIsDataWhateverItsQuotes) {
  EXPECT_EQ(said("echo 'single' \"double\" \\'back\\' `echo tick` $((1+1)) '\\'"),
            "0 kept out=[single double 'back' tick 2 \\\n] err=[]");
  EXPECT_EQ(agent_.run("-x").end, (RunEnded{EndKind::Exited, 127, ShellState::Kept}));
  EXPECT_EQ(said("echo a\necho b\n\n# comment"), "0 kept out=[a\nb\n] err=[]");
  EXPECT_EQ(said("cat <<'END'\n$x 'quoted'\nEND\n"), "0 kept out=[$x 'quoted'\n] err=[]");
}

TEST_P(ShellRuns, CodeWithAZeroByteIsRefused) {
  EXPECT_TRUE(agent_.run(std::string_view("echo a\0b", 8)).refused);
}

TEST_P(ShellRuns, LargeCodeArrivesWhole) {
  std::string code = "x='";
  code.append(500'000, 'y');
  code += "'; echo ${#x}";
  EXPECT_EQ(said(code), "0 kept out=[500000\n] err=[]");
}

TEST_P(ShellRuns, NounsetPipefailAndNoclobberPersistAndBreakNothing) {
  EXPECT_THAT(said("set -u; echo $nosuch; echo no"), HasSubstr("kept out=[] err=["));
  EXPECT_EQ(said("echo ${-}" + std::string(is_bash() ? "; set -o pipefail" : "")).substr(0, 6),
            "0 kept");
  if (is_bash()) {
    EXPECT_EQ(said("false | true"), "1 kept out=[] err=[]");
  }
  EXPECT_EQ(said("set -C"), "0 kept out=[] err=[]");
  EXPECT_EQ(said("echo x"), "0 kept out=[x\n] err=[]");
}

TEST_P(ShellRuns, ExpansionErrorsEndTheRunAndNotTheShell) {
  EXPECT_EQ(said("x=kept"), "0 kept out=[] err=[]");
  for (const char* code :
       {"echo ${nosuch:?bad}; echo no", "echo $((1/0)); echo no", "readonly r=1; r=2; echo no"}) {
    const RunResult result = agent_.run(code);
    EXPECT_EQ(result.output, "") << code;
    EXPECT_NE(result.end.value, 0U) << code;
    EXPECT_EQ(result.end.shell, ShellState::Kept) << code;
  }
  EXPECT_EQ(said("echo $x"), "0 kept out=[kept\n] err=[]");
}

TEST_P(ShellRuns, LoopAndReturnWordsStayInsideTheRun) {
  EXPECT_EQ(agent_.run("break 5; continue; echo on").end.shell, ShellState::Kept);
  EXPECT_EQ(said("return 7"), "7 kept out=[] err=[]");
  EXPECT_EQ(said("for i in 1 2 3; do [ $i = 2 ] && break; echo $i; done"),
            "0 kept out=[1\n] err=[]");
}

TEST_P(ShellRuns, ATraceShowsTheRunAndLittleOfTheDriver) {
  // What comes after the end is read or not read by chance.
  const RunResult traced = agent_.run("set -x; echo hi");
  EXPECT_THAT(traced.error,
              ::testing::AnyOf(StartsWith("+ echo hi\n"), StartsWith("+++ echo hi\n")));
  EXPECT_EQ(traced.error.find("command echo"), std::string::npos);
  const RunResult result = agent_.run("set +x");
  EXPECT_EQ(result.error.find(" 0"), std::string::npos) << result.error;
}

TEST_P(ShellRuns, AliasesWork) {
  EXPECT_EQ(said("alias greet='echo hello'"), "0 kept out=[] err=[]");
  EXPECT_EQ(said("greet"), "0 kept out=[hello\n] err=[]");
}

TEST_P(ShellRuns, RedirectingTheShellsOwnStreamsLastsForTheRun) {
  EXPECT_EQ(said("exec >file 2>&1; echo to the file"), "0 kept out=[] err=[]");
  EXPECT_EQ(said("cat file; exec 9>lock; echo l >&9; exec 0</dev/null 1>&- 2>&-"),
            "0 kept out=[to the file\n] err=[]");
  EXPECT_EQ(said("echo again"), "0 kept out=[again\n] err=[]");
}

TEST_P(ShellRuns, RemovingTheAgentsDirectoryCostsNothing) {
  const std::string wipe = "rm -rf " + agent_.scratch() + "/.[!.]* " + agent_.scratch() + "/*";
  EXPECT_EQ(said("x=kept; " + wipe), "0 kept out=[] err=[]");
  EXPECT_EQ(said("echo $x"), "0 kept out=[kept\n] err=[]");
  EXPECT_EQ(said(wipe + "; echo gone"), "0 kept out=[gone\n] err=[]");
  EXPECT_EQ(said("echo $x"), "0 kept out=[kept\n] err=[]");
}

TEST_P(ShellRuns, CwdOfARunIsWhereTheShellStays) {
  StartRun run;
  run.code = "pwd";
  run.cwd = "/usr/bin";
  EXPECT_EQ(to_text(agent_.run(run)), "0 kept out=[/usr/bin\n] err=[]");
  EXPECT_EQ(said("pwd"), "0 kept out=[/usr/bin\n] err=[]");
  run.cwd = "no/such";
  const RunResult missing = agent_.run(run);
  EXPECT_NE(missing.end.value, 0U);
  EXPECT_EQ(missing.output, "");
  EXPECT_EQ(missing.end.shell, ShellState::Kept);
}

TEST_P(ShellRuns, StreamedInputReachesTheRunAndEnds) {
  StartRun run;
  run.code = "read first; echo \"first=$first\"; cat; echo; echo end";
  run.input = RunInput::Streamed;
  EXPECT_EQ(to_text(agent_.run(run, "one\ntwo\nthree")),
            "0 kept out=[first=one\ntwo\nthree\nend\n] err=[]");
  run.code = "cat | wc -c";
  EXPECT_EQ(agent_.run(run, std::string(300'000, 'x')).output, "300000\n");
  EXPECT_EQ(said("cat"), "0 kept out=[] err=[]");
}

TEST_P(ShellRuns, InputNobodyReadsDoesNotHoldTheRun) {
  StartRun run;
  run.code = "echo done";
  run.input = RunInput::Streamed;
  EXPECT_EQ(to_text(agent_.run(run, std::string(1'000'000, 'x'))), "0 kept out=[done\n] err=[]");
}

TEST_P(ShellRuns, AReaderThatIsGoneFromTheStartDoesNotHoldTheRun) {
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(agent_.link().start_run(code_with_env("x=kept; echo unread; echo too >&2", {})));
    // The events, and with them the pipes, are thrown away.
    ASSERT_TRUE(agent_.serve_until([&] {
      EXPECT_TRUE(agent_.link().on_ready());
      return agent_.link().under_way() == 0;
    }));
  }
  EXPECT_EQ(said("echo $x"), "0 kept out=[kept\n] err=[]");
}

TEST_P(ShellRuns, AShellThatIsKilledIsReplaced) {
  const RunResult result = agent_.run("x=lost; kill -9 $$; echo no");
  EXPECT_EQ(to_text(result), "signal 9 fresh out=[] err=[]");
  EXPECT_EQ(said("echo [$x]"), "0 kept out=[[]\n] err=[]");
  EXPECT_EQ(to_text(agent_.run("sh -c 'kill -9 -1'; echo no")), "signal 9 fresh out=[] err=[]");
  EXPECT_EQ(said("echo alive"), "0 kept out=[alive\n] err=[]");
}

TEST_P(ShellRuns, AShellThatDiedBetweenRunsIsReportedWithTheNext) {
  EXPECT_EQ(said("x=lost; (sleep 0.1; kill -9 $$) &"), "0 kept out=[] err=[]");
  EXPECT_EQ(agent_.exec({"sleep", "0.3"}).end.value, 0U);
  EXPECT_EQ(said("echo [$x]"), "0 fresh out=[[]\n] err=[]");
  EXPECT_EQ(said("echo on"), "0 kept out=[on\n] err=[]");
}

TEST_P(ShellRuns, ASecondRunWhileTheShellIsBusyIsRefused) {
  const Id first = agent_.start(code_with_env("sleep 0.3; echo first", {}));
  StartRun second;
  second.code = "echo second";
  const auto refused = agent_.link().start_run(second);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Exhausted);
  EXPECT_EQ(agent_.finish(first).output, "first\n");
}

TEST_P(ShellRuns, FreshShellHasDirectoryAndExportsButNotTheState) {
  EXPECT_EQ(said("cd /usr; export E='it'\\''s\n two'; local=no; f() { :; }"),
            "0 kept out=[] err=[]");
  StartRun run;
  run.mode = RunMode::Fresh;
  run.code = "pwd; echo \"$E\"; echo [$local] $R; cd /; exit 3";
  run.env = {"R=run"};
  EXPECT_EQ(to_text(agent_.run(run)), "3 out=[/usr\nit's\n two\n[] run\n] err=[]");
  EXPECT_EQ(said("pwd"), "0 kept out=[/usr\n] err=[]");
  run.code = "x='" + std::string(200'000, 'y') + "'; echo ${#x}";
  EXPECT_EQ(to_text(agent_.run(run)), "0 out=[200000\n] err=[]");
}

TEST_P(ShellRuns, FreshRunsGoOnBesideTheShell) {
  StartRun background;
  background.mode = RunMode::Fresh;
  background.code = "sleep 0.3; echo background";
  const Id id = agent_.start(background);
  EXPECT_EQ(said("echo foreground"), "0 kept out=[foreground\n] err=[]");
  EXPECT_FALSE(agent_.watched(id).over);
  EXPECT_EQ(to_text(agent_.finish(id)), "0 out=[background\n] err=[]");
}

// Names that only bash lets a function have.
TEST(BashRuns, FunctionsNamedLikeBuiltinsChangeNothing) {
  TestAgent agent;
  EXPECT_EQ(to_text(agent.run("read() { :; }; eval() { :; }; echo() { :; }; printf() { :; }; "
                              "exec() { :; }; source() { :; }; export() { :; }; cd() { :; }")),
            "0 kept out=[] err=[]");
  EXPECT_EQ(to_text(agent.run("command echo ok")), "0 kept out=[ok\n] err=[]");
  StartRun fresh;
  fresh.mode = RunMode::Fresh;
  fresh.code = "echo fresh";
  EXPECT_EQ(to_text(agent.run(fresh)), "0 out=[fresh\n] err=[]");
}

TEST(BashRuns, AFunctionNamedCommandCostsTheShellAndNotTheSession) {
  TestAgent agent;
  StartRun run;
  run.code = "command() { :; }; echo defined";
  const Id id = agent.start(run);
  agent.serve_until([&] { return !agent.watched(id).result.output.empty(); });
  EXPECT_TRUE(agent.link().kill_run(id, std::chrono::milliseconds(300)));
  EXPECT_EQ(agent.finish(id).end.shell, ShellState::Fresh);
  EXPECT_EQ(to_text(agent.run("echo ok")), "0 kept out=[ok\n] err=[]");
}

TEST(BashRuns, ArraysAndDeclareAreGlobal) {
  TestAgent agent;
  EXPECT_EQ(to_text(agent.run("declare -A map; map[a]=1; list=(1 2 3); declare -i n=4")),
            "0 kept out=[] err=[]");
  EXPECT_EQ(to_text(agent.run("n+=1; echo ${map[a]} ${list[2]} $n")),
            "0 kept out=[1 3 5\n] err=[]");
  EXPECT_EQ(to_text(agent.run("echo a!b !echo")), "0 kept out=[a!b !echo\n] err=[]");
  EXPECT_EQ(agent.run("nosuchcommand").error, "bash: nosuchcommand: command not found\n");
}

TEST(NoShell, IsSaidAndProgramsStillRun) {
  TestAgent::Options options;
  options.shells = {"/nonexistent/bash", "/nonexistent/sh"};
  TestAgent agent(options);
  EXPECT_EQ(agent.shell(), ShellKind::None);
  ASSERT_TRUE(agent.run("echo x").refused);
  EXPECT_EQ(to_text(agent.exec({"echo", "program"})), "0 out=[program\n] err=[]");
}

}  // namespace
}  // namespace glovebox::guest
