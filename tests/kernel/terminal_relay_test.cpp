// With a terminal the command gets one of its own, and the caller's comes back as it was.
#include "support/box_test.h"
#include "support/terminal.h"

#include <cstring>

#include <sys/stat.h>

namespace glovebox::test {
namespace {

constexpr unsigned short kRows = 33;
constexpr unsigned short kColumns = 77;

class TerminalRelay : public BoxTest {
 protected:
  Settings on_terminal() const {
    Settings settings;
    settings.in = settings.out = settings.err = terminal_.program_side();
    settings.terminal = terminal_.path();
    return settings;
  }
  // Runs the probe on the terminal to its end; what it said is on the screen.
  Outcome probe_on_terminal(const Words& words) {
    Outcome outcome = start_probe({}, words, on_terminal()).finish();
    terminal_.look();
    outcome.out = terminal_.screen();
    return outcome;
  }
  static Clock::time_point soon() { return Clock::now() + std::chrono::seconds(20); }

  Terminal terminal_{kRows, kColumns};
};

TEST_P(TerminalRelay, CommandHasATerminalOfItsOwn) {
  const Outcome outcome = probe_on_terminal({"tty"});
  ASSERT_THAT(outcome, ended_with(0));
  struct stat outside{};
  ASSERT_EQ(fstat(terminal_.program_side(), &outside), 0);
  const std::string callers_device = " dev " + std::to_string(outside.st_dev);
  for (const char* fd : {"0", "1", "2"}) {
    const Words lines = lines_after(outcome.out, std::string("fd ") + fd + " ");
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_THAT(lines.front(), testing::StartsWith("tty 1 name /dev/pts/"));
    EXPECT_THAT(lines.front(), testing::Not(testing::EndsWith(callers_device)));
  }
  EXPECT_EQ(lines_after(outcome.out, "controlling "), Words{"yes"});
  EXPECT_EQ(lines_after(outcome.out, "leader "), Words{"1 foreground 1"});
}

TEST_P(TerminalRelay, WithoutOneThereIsNone) {
  const Outcome outcome = probe({}, {"tty"});
  ASSERT_THAT(outcome, ended_with(0));
  EXPECT_EQ(lines_after(outcome.out, "controlling "), Words{"ENXIO"});
  EXPECT_THAT(probe({}, {"session_leader"}), ended_with(0));
}

TEST_P(TerminalRelay, RedirectedStreamsStayRedirected) {
  Settings settings;
  settings.in = settings.err = terminal_.program_side();
  settings.terminal = terminal_.path();
  const Outcome outcome = start_probe({}, {"tty"}, settings).finish();
  ASSERT_THAT(outcome, ended_with(0));
  EXPECT_THAT(lines_after(outcome.out, "fd 0 "),
              testing::ElementsAre(testing::StartsWith("tty 1 ")));
  EXPECT_THAT(lines_after(outcome.out, "fd 1 "),
              testing::ElementsAre(testing::StartsWith("tty 0 ")));
}

TEST_P(TerminalRelay, WindowSizeIsTheCallers) {
  EXPECT_EQ(lines_after(probe_on_terminal({"window"}).out, "size "), Words{"33 77"});
}

TEST_P(TerminalRelay, ResizeIsPassedOn) {
  Running box = start_probe({}, {"await_resize"}, on_terminal());
  ASSERT_TRUE(terminal_.shows("size 33 77", soon())) << terminal_.screen();
  terminal_.resize(50, 120);
  EXPECT_TRUE(terminal_.shows("size 50 120", soon())) << terminal_.screen();
  EXPECT_THAT(box.finish(), ended_with(0));
}

TEST_P(TerminalRelay, ExitCodeIsTheCommands) {
  EXPECT_THAT(probe_on_terminal({"exit_code", "7"}), ended_with(7));
  EXPECT_THAT(probe_on_terminal({"signal_self", "15"}), ended_with(128 + SIGTERM));
}

TEST_P(TerminalRelay, InterruptKeyReachesTheCommand) {
  Running box = start_probe({}, {"sleep"}, on_terminal());
  ASSERT_TRUE(terminal_.shows("ready", soon())) << terminal_.screen();
  terminal_.type("\x03");
  EXPECT_THAT(box.finish(), ended_with(128 + SIGINT));
}

TEST_P(TerminalRelay, TypedLinesReachTheCommand) {
  Running box = start({}, {"/bin/sh", "-c", "read line && echo got:$line:"}, on_terminal());
  terminal_.type("some words\r");
  EXPECT_TRUE(terminal_.shows("got:some words:", soon())) << terminal_.screen();
  EXPECT_THAT(box.finish(), ended_with(0));
}

TEST_P(TerminalRelay, EndOfFileKeyEndsInput) {
  Running box = start({}, {"/bin/sh", "-c", "echo ready; cat; echo over"}, on_terminal());
  ASSERT_TRUE(terminal_.shows("ready", soon())) << terminal_.screen();
  terminal_.type("\x04");
  EXPECT_TRUE(terminal_.shows("over", soon())) << terminal_.screen();
  EXPECT_THAT(box.finish(), ended_with(0));
}

TEST_P(TerminalRelay, CallersSettingsComeBack) {
  const termios before = terminal_.settings();
  EXPECT_THAT(probe_on_terminal({"raw_tty"}), ended_with(0));
  const termios after = terminal_.settings();
  EXPECT_EQ(before.c_iflag, after.c_iflag);
  EXPECT_EQ(before.c_oflag, after.c_oflag);
  EXPECT_EQ(before.c_lflag, after.c_lflag);
  EXPECT_EQ(std::memcmp(before.c_cc, after.c_cc, sizeof before.c_cc), 0);
}

TEST_P(TerminalRelay, SettingsComeBackAfterALimitToo) {
  const termios before = terminal_.settings();
  EXPECT_THAT(start_probe({"--wall", "300ms"}, {"sleep"}, on_terminal()).finish(), ended_with(124));
  EXPECT_EQ(before.c_lflag, terminal_.settings().c_lflag);
}

TEST_P(TerminalRelay, OutputIsWhole) {
  Running box = start({}, {"/bin/sh", "-c", "seq 1 20000; echo the-end"}, on_terminal());
  EXPECT_TRUE(terminal_.shows("the-end", soon()));
  EXPECT_THAT(box.finish(), ended_with(0));
  for (const char* number : {"\n7777\r", "\n19999\r", "\n20000\r"}) {
    EXPECT_THAT(terminal_.screen(), testing::HasSubstr(number));
  }
}

BOX_TEST_TIERS(TerminalRelay);

}  // namespace
}  // namespace glovebox::test
