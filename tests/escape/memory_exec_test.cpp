// Class 34: executing from memory (memfd, /proc/self/fd) where the filesystem would not let one.
// Execution as such is allowed in a box, so this gains nothing: what is promised is that such a
// program stands behind the same walls.
// Tried: execveat of a memfd, execution from /tmp and from a workspace; then the walls are checked
// from the program that was started.
// Canary: no capability, the filter on, no_new_privs on.
#include "support/box_test.h"

namespace glovebox::test {
namespace {

class MemoryExec : public BoxTest {};

TEST_P(MemoryExec, ProgramFromMemoryIsTheSameUser) {
  const Outcome direct = probe({}, {"ids"});
  const Outcome from_memory = probe({}, {"memfd_exec"});
  ASSERT_THAT(from_memory, ended_with(0));
  EXPECT_EQ(lines_after(from_memory.out, "uid "), lines_after(direct.out, "uid "));
}

TEST_P(MemoryExec, CopiedProgramStandsBehindTheSameWalls) {
  for (const char* name : {"caps", "nnp", "seccomp_mode"}) {
    const std::string words = probe_path() + " copy_self /tmp/copy && exec /tmp/copy " + name;
    EXPECT_THAT(run({"--read", installation().probe_directory()}, {"/bin/sh", "-c", words}),
                ended_with(0))
        << name;
  }
  const std::string words = probe_path() + " copy_self /tmp/copy && exec /tmp/copy mount /tmp";
  EXPECT_THAT(run({"--read", installation().probe_directory()}, {"/bin/sh", "-c", words}),
              ended_with(EPERM));
}

TEST_P(MemoryExec, DynamicLoaderIsNoWayAround) {
  // The loader as a command runs a program without execute permission; it stays the same user.
  const std::string words =
      "cp /usr/bin/id /tmp/id && chmod 644 /tmp/id && exec /lib64/ld-linux-x86-64.so.2 /tmp/id -u";
  const Outcome outcome = run({}, {"/bin/sh", "-c", words});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_EQ(outcome.out,
            (as_root() ? std::string("1000") : std::to_string(caller_ids().uid)) + "\n");
}

BOX_TEST_TIERS(MemoryExec);

}  // namespace
}  // namespace glovebox::test
