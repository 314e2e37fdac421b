// Class 17: system calls through the i386 entry (int 0x80) or with x32 numbers, which a filter that
// does not look at the architecture reads as other calls.
// Tried: getpid, socket and ptrace by int 0x80; getpid, ptrace, mount and unshare with the x32 bit.
// Canary: the process is killed or told ENOSYS; it never gets an answer.
#include "support/box_test.h"

#include <sys/syscall.h>
#include <sys/utsname.h>

namespace glovebox::test {
namespace {

class Architecture : public BoxTest {
 protected:
  void SetUp() override {
    utsname names{};
    uname(&names);
    if (std::string(names.machine) != "x86_64") GTEST_SKIP() << "these doors exist on x86-64 only";
    BoxTest::SetUp();
  }
};

const Errnos kShut{ENOSYS, EPERM, 128 + SIGSYS};

TEST_P(Architecture, I386EntryIsShut) {
  for (const char* name : {"int80_getpid", "int80_socket", "int80_ptrace"}) {
    EXPECT_THAT(probe({}, {name}), refused_with(kShut)) << name;
  }
}

TEST_P(Architecture, X32NumbersAreShut) {
  EXPECT_THAT(probe({}, {"x32_getpid"}), refused_with(kShut));
  // 512 and above are x32's own entries, among them execve and ptrace.
  const std::vector<long> numbers{SYS_ptrace, SYS_mount, SYS_unshare, SYS_keyctl,
                                  512,        520,       521,         545};
  for (const long number : numbers) {
    EXPECT_THAT(probe({}, {"x32", std::to_string(number)}), refused_with(kShut)) << number;
  }
}

TEST_P(Architecture, NativeCallsWork) {
  EXPECT_THAT(probe({}, {"syscall", std::to_string(SYS_getpid)}), ended_with(0));
}

BOX_TEST_TIERS(Architecture);

}  // namespace
}  // namespace glovebox::test
