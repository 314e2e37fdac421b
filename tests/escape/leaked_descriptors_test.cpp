// Class 2: host descriptors or a working directory outside the root that reach the command
// (CVE-2024-21626).
// Tried: every descriptor is listed and climbed from with openat(fd, ".."); the caller starts
// glovebox with directories of the host open and with its working directory in a place that the box
// does not have; standard streams are opened again with more rights than they were given.
// Canary: files next to the streams' targets.
#include "support/box_test.h"

#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

class LeakedDescriptors : public BoxTest {};

TEST_P(LeakedDescriptors, CallersOpenDirectoriesDoNotReachTheCommand) {
  const UniqueFd root(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd high(fcntl(root.get(), F_DUPFD_CLOEXEC, 900));
  const UniqueFd path(open("/etc", O_PATH | O_CLOEXEC));
  Settings settings;
  settings.kept = {root.get(), high.get(), path.get()};
  EXPECT_THAT(probe({}, {"list_fds"}, settings), ended_with(0));
  EXPECT_THAT(probe({}, {"count_fds"}, settings), ended_with(0));
}

TEST_P(LeakedDescriptors, CallersWorkingDirectoryIsLeft) {
  const std::string outside = make_tree("outside");
  Settings settings;
  settings.directory = outside;
  const Outcome outcome = probe({}, {"getcwd"}, settings);
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_EQ(lines_after(outcome.out, "cwd "), Words{"/home/box"});
  EXPECT_THAT(probe({}, {"climb"}, settings), ended_with(0));
  EXPECT_THAT(probe({}, {"read", "old"}, settings), ended_with(ENOENT));
  EXPECT_THAT(probe({}, {"read", "/proc/self/cwd/../../../../../etc/shadow"}, settings),
              refused_with(Errnos{EACCES, ENOENT}));
}

TEST_P(LeakedDescriptors, DeletedWorkingDirectoryIsNoHole) {
  const std::string gone = make_directory("gone");
  Settings settings;
  settings.wrapper = {"/bin/sh", "-c", "cd \"$0\" && rmdir \"$0\" && exec \"$@\"", gone};
  EXPECT_THAT(probe({}, {"getcwd"}, settings), ended_with(0));
}

TEST_P(LeakedDescriptors, WorkingDirectoryOptionCannotNameADescriptor) {
  for (const char* path : {"/proc/self/fd/3", "/proc/self/fd/7", "/proc/self/fd/8", "/proc/1/cwd",
                           "/proc/1/root", "/proc/self/cwd/.."}) {
    const Outcome outcome = probe({"--cwd", path}, {"climb"});
    EXPECT_THAT(outcome, testing::AnyOf(refused_to_start(""), ended_with(0))) << path;
  }
}

TEST_P(LeakedDescriptors, InputFileCannotBeOpenedForWriting) {
  const std::string canary = make_file("canary", "as it was\n", 0666);
  const UniqueFd input(open(canary.c_str(), O_RDONLY | O_CLOEXEC));
  Settings settings;
  settings.in = input.get();
  for (const char* mode : {"w", "rw"}) {
    EXPECT_THAT(probe({}, {"reopen", "0", mode}, settings), ended_with(EACCES)) << mode;
  }
  EXPECT_EQ(read_text(canary), "as it was\n");
}

TEST_P(LeakedDescriptors, OutputFileCannotBeOpenedForReading) {
  // A log that holds other people's lines, given for appending.
  const std::string log = make_file("log", "a secret of an earlier run\n", 0666);
  const UniqueFd output(open(log.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  Settings settings;
  settings.out = output.get();
  // Where output is relayed, descriptor 1 is a pipe, and a pipe has no past to read.
  const Outcome outcome = probe({}, {"reopen", "1", "r"}, settings);
  EXPECT_THAT(outcome, refused_with(Errnos{EACCES, ESPIPE}));
  EXPECT_THAT(read_text(log), testing::Not(testing::HasSubstr("reopened: ")));
}

TEST_P(LeakedDescriptors, OutputFileCanBeWritten) {
  const std::string log = make_file("log", "first\n", 0666);
  const UniqueFd output(open(log.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  Settings settings;
  settings.out = output.get();
  EXPECT_THAT(run({}, {"/bin/echo", "second"}, settings), ended_with(0));
  EXPECT_EQ(read_text(log), "first\nsecond\n");
}

BOX_TEST_TIERS(LeakedDescriptors);

}  // namespace
}  // namespace glovebox::test
