// Class 14: reading or writing the memory of another process: init, the supervisor, a helper of the
// same user.
// Tried: ptrace, /proc/PID/mem, process_vm_readv and writev, pidfd_getfd and kcmp against PID 1 and
// against a sibling in the box; against a victim outside by its pid there.
// Canary: the run ends as the command decided, so init was not disturbed.
#include "support/box_test.h"

#include <unistd.h>

namespace glovebox::test {
namespace {

class ProcessMemory : public BoxTest {};

TEST_P(ProcessMemory, InitIsOutOfReach) {
  EXPECT_THAT(probe({}, {"ptrace", "1"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"ptrace_seize", "1"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"proc_mem_write", "1"}), refused_with(Errnos{EACCES, EPERM}));
  EXPECT_THAT(probe({}, {"process_vm", "1"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"process_vm_write", "1"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"pidfd_getfd", "1"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"kcmp", "1"}), ended_with(EPERM));
  for (const char* file : {"maps", "environ", "auxv", "stack", "syscall"}) {
    EXPECT_THAT(probe({}, {"read", std::string("/proc/1/") + file}),
                refused_with(Errnos{EACCES, EPERM}))
        << file;
  }
}

TEST_P(ProcessMemory, SiblingsCannotBeTraced) {
  EXPECT_THAT(probe({}, {"ptrace_child"}), ended_with(EPERM));
  const std::string words = "sleep 1000 & " + probe_path() + " process_vm_write $!";
  EXPECT_THAT(run({"--read", installation().probe_directory()}, {"/bin/sh", "-c", words}),
              ended_with(EPERM));
}

TEST_P(ProcessMemory, ProcessesOutsideHaveNoPidHere) {
  const std::string outside = std::to_string(getpid());
  EXPECT_THAT(probe({}, {"proc_mem_write", outside}), ended_with(ENOENT));
  EXPECT_THAT(probe({}, {"list", "/proc/" + outside}), ended_with(ENOENT));
}

TEST_P(ProcessMemory, OwnStateCanBeRead) {
  EXPECT_THAT(probe({}, {"read", "/proc/self/maps"}), ended_with(0));
  EXPECT_THAT(probe({}, {"read", "/proc/self/environ"}), ended_with(0));
}

BOX_TEST_TIERS(ProcessMemory);

}  // namespace
}  // namespace glovebox::test
