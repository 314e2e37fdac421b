// Class 10: typing into the caller's terminal with TIOCSTI or TIOCLINUX (CVE-2017-5226,
// CVE-2019-10063: a filter that compares 64 bits misses commands with high bits set).
// Tried: both ioctls, plain and with bit 32 set, on the command's own terminal and with none; the
// caller's terminal as controlling terminal.
// Canary: the input queue of the caller's terminal stays empty.
#include "support/box_test.h"
#include "support/terminal.h"

namespace glovebox::test {
namespace {

class TerminalInjection : public BoxTest {
 protected:
  Outcome probe_on_terminal(const Words& words) {
    Settings settings;
    settings.in = settings.out = settings.err = terminal_.program_side();
    settings.terminal = terminal_.path();
    Outcome outcome = start_probe({}, words, settings).finish();
    terminal_.look();
    outcome.out = terminal_.screen();
    return outcome;
  }

  Terminal first_{24, 80};  // takes /dev/pts/0, which every box has of its own
  Terminal terminal_{24, 80};
};

TEST_P(TerminalInjection, KeysCannotBePushed) {
  for (const char* bits : {"plain", "high"}) {
    EXPECT_THAT(probe_on_terminal({"ioctl_tiocsti", bits}), ended_with(EPERM)) << bits;
    EXPECT_THAT(probe_on_terminal({"ioctl_tioclinux", bits}), ended_with(EPERM)) << bits;
    EXPECT_EQ(terminal_.unread_input(), 0) << "a key arrived outside";
  }
}

TEST_P(TerminalInjection, WithoutATerminalTheAnswerIsTheSame) {
  for (const char* bits : {"plain", "high"}) {
    EXPECT_THAT(probe({}, {"ioctl_tiocsti", bits}), ended_with(EPERM)) << bits;
    EXPECT_THAT(probe({}, {"ioctl_tioclinux", bits}), ended_with(EPERM)) << bits;
  }
}

TEST_P(TerminalInjection, OrdinaryTerminalCallsWork) {
  EXPECT_THAT(probe_on_terminal({"window"}), ended_with(0));
  EXPECT_THAT(probe_on_terminal({"raw_tty"}), ended_with(0));
}

TEST_P(TerminalInjection, CallersTerminalCannotBeNamed) {
  EXPECT_THAT(probe_on_terminal({"steal_tty", terminal_.path()}),
              refused_with(Errnos{ENOENT, EACCES, EPERM, ENXIO, EIO}));
}

BOX_TEST_TIERS(TerminalInjection);

}  // namespace
}  // namespace glovebox::test
