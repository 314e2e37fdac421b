// Descriptors 0, 1, 2 and no other; bytes pass unchanged.
#include "support/box_test.h"

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

class Stdio : public BoxTest {};

TEST_P(Stdio, OnlyThreeDescriptorsReachTheCommand) {
  EXPECT_THAT(probe({}, {"list_fds"}), ended_with(0));
  EXPECT_THAT(probe({}, {"count_fds"}), ended_with(0));
}

TEST_P(Stdio, CallersOtherDescriptorsDoNotPass) {
  const std::string canary = make_file("canary", "outside\n");
  const UniqueFd file(open(canary.c_str(), O_RDWR | O_CLOEXEC));
  const UniqueFd dir(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Settings settings;
  settings.kept = {file.get(), dir.get()};
  EXPECT_THAT(probe({}, {"list_fds"}, settings), ended_with(0));
  EXPECT_THAT(probe({}, {"count_fds"}, settings), ended_with(0));
}

TEST_P(Stdio, StandardErrorIsItsOwnStream) {
  const Outcome outcome = probe({}, {"write_stderr", "to the side"});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_EQ(outcome.err, "to the side");
}

TEST_P(Stdio, BytesPassUnchanged) {
  Settings settings;
  for (int i = 0; i < 3 << 20; ++i) settings.input.push_back(static_cast<char>(i * 7 + i / 256));
  const Outcome outcome = run({}, {"/bin/cat"}, settings);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(outcome.out == settings.input) << outcome.out.size() << " bytes came back";
}

TEST_P(Stdio, EndOfInputIsSeen) {
  const Outcome outcome = probe({}, {"read_stdin"});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_EQ(lines_after(outcome.out, "stdin gave "), Words{"0 bytes"});
}

TEST_P(Stdio, NullDeviceAsInput) {
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  Settings settings;
  settings.in = null.get();
  EXPECT_THAT(probe({}, {"read_stdin"}, settings), ended_with(0));
  EXPECT_THAT(probe({}, {"list_fds"}, settings), ended_with(0));
}

TEST_P(Stdio, NullDeviceAsOutput) {
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  Settings settings;
  settings.out = null.get();
  settings.err = null.get();
  EXPECT_THAT(probe({}, {"exit_code", "7"}, settings), ended_with(7));
}

TEST_P(Stdio, ClosedInputIsNoHole) {
  Settings settings;
  settings.in = -1;
  const Outcome outcome = probe({}, {"list_fds"}, settings);
  EXPECT_THAT(outcome, ended_with(0));
  for (const std::string& line : lines_after(outcome.out, "fd 0 ")) {
    EXPECT_THAT(line, testing::StartsWith("/dev/null ")) << "something of glovebox's own at 0";
  }
}

TEST_P(Stdio, ClosedOutputIsNoHole) {
  Settings settings;
  settings.out = -1;
  EXPECT_THAT(probe({}, {"count_fds"}, settings), ended_with(0));
  settings.err = -1;
  settings.in = -1;
  EXPECT_THAT(probe({}, {"count_fds"}, settings), ended_with(0));
}

TEST_P(Stdio, DirectoryAsInputIsRefused) {
  const UniqueFd dir(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Settings settings;
  settings.in = dir.get();
  EXPECT_THAT(probe({}, {"list_fds"}, settings), refused_to_start("directory"));
}

TEST_P(Stdio, DirectoryAsErrorOutputIsRefused) {
  const UniqueFd dir(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Settings settings;
  settings.err = dir.get();
  EXPECT_THAT(probe({}, {"list_fds"}, settings), ended_with(125));
}

TEST_P(Stdio, PathDescriptorAsInputIsRefused) {
  const UniqueFd path(open("/etc", O_PATH | O_CLOEXEC));
  Settings settings;
  settings.in = path.get();
  EXPECT_THAT(probe({}, {"list_fds"}, settings), ended_with(125));
}

TEST_P(Stdio, ReaderThatGoesAwayEndsTheWriter) {
  Running box = start_probe({}, {"output_flood", "512"});
  ASSERT_TRUE(box.wait_for("xxxx"));
  // The command meets SIGPIPE or EPIPE like outside; glovebox itself must not hang or crash.
  box.signal(SIGTERM);
  const Outcome outcome = box.finish();
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_NE(outcome.code, 0);
}

// With a limit on the output glovebox carries it, so a full disk is met by glovebox.
TEST_P(Stdio, LostOutputIsAnError) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  Settings settings;
  settings.out = full.get();
  const Outcome outcome = run({"--output-limit", "1MiB"}, {"/bin/echo", "something"}, settings);
  EXPECT_THAT(outcome, ended_with(125));
  EXPECT_THAT(outcome.err, testing::HasSubstr("No space left on device"));
}

TEST_P(Stdio, SignalsStartAtTheirDefaults) { EXPECT_THAT(probe({}, {"signals"}), ended_with(0)); }

BOX_TEST_TIERS(Stdio);

}  // namespace
}  // namespace glovebox::test
