// Descriptors 0, 1, 2 and no other; bytes pass unchanged.
#include "support/box_test.h"

#include <algorithm>
#include <array>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

class Stdio : public BoxTest {};

// How many have not ended; one that has may wait to be reaped.
std::size_t living(const std::vector<pid_t>& pids) {
  return static_cast<std::size_t>(std::ranges::count_if(pids, [](pid_t pid) {
    const std::string stat = read_text("/proc/" + std::to_string(pid) + "/stat");
    const std::size_t end = stat.rfind(')');
    return end != std::string::npos && stat.compare(end, 3, ") Z") != 0;
  }));
}

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

// A socket of the host's could be connected elsewhere, and tells of the host's network.
TEST_P(Stdio, OfASocketOnlyTheBytesPass) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  ASSERT_EQ(write(ours.get(), "hello\n", 6), 6);
  ASSERT_EQ(shutdown(ours.get(), SHUT_WR), 0);
  Settings settings;
  settings.in = settings.out = settings.err = theirs.get();
  const char* script =
      "for fd in 0 1 2; do test ! -S /proc/self/fd/$fd || exit 7; done; cat; echo side >&2";
  EXPECT_THAT(run({}, {"/bin/sh", "-c", script}, settings), ended_with(0));
  std::array<char, 64> got{};
  const ssize_t size = recv(ours.get(), got.data(), got.size(), MSG_DONTWAIT);
  EXPECT_EQ(std::string(got.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))),
            "hello\nside\n");
}

TEST_P(Stdio, AFileThatCanBeWrittenIsNotHandedInAsInput) {
  const std::string path = make_file("input", "text\n");
  const UniqueFd both(open(path.c_str(), O_RDWR | O_CLOEXEC));
  Settings settings;
  settings.in = both.get();
  EXPECT_EQ(run({}, {"/bin/sh", "-c", "cat; echo evil >&0"}, settings).out, "text\n");
  EXPECT_EQ(read_text(path), "text\n");
}

// Its output is not read; its limit holds all the same.
TEST_P(Stdio, AReaderThatWaitsSuspendsNoLimit) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  Settings settings;
  settings.out = theirs.get();
  Running box = start({"--wall", "500ms", "--output-limit", "100MiB"},
                      {"/bin/sh", "-c", "cat /dev/zero"}, settings);
  theirs.reset();
  pollfd begun{ours.get(), POLLIN, 0};
  ASSERT_EQ(poll(&begun, 1, 20'000), 1);
  const auto give_up = Clock::now() + std::chrono::seconds(20);
  while (living(box_processes()) != 1 && Clock::now() < give_up) usleep(10'000);
  EXPECT_EQ(living(box_processes()), 1U) << "glovebox alone, which waits for the reader";
  ours.reset();
  EXPECT_THAT(box.finish(), ended_by_limit("wall"));
}

TEST_P(Stdio, SignalsStartAtTheirDefaults) { EXPECT_THAT(probe({}, {"signals"}), ended_with(0)); }

BOX_TEST_TIERS(Stdio);

}  // namespace
}  // namespace glovebox::test
