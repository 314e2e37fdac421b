// The system call filter, seen from inside: a refusal comes from the filter, with its errno, also
// where the kernel would have said something else.
#include "support/box_test.h"

#include <linux/sched.h>
#include <sys/personality.h>
#include <sys/syscall.h>

namespace glovebox::test {
namespace {

class Seccomp : public BoxTest {};

TEST_P(Seccomp, OrdinaryProgramsWork) {
  EXPECT_THAT(run({}, {"/bin/sh", "-c", "ls / | sort | head -3 > /tmp/x && test -s /tmp/x"}),
              ended_with(0));
  EXPECT_THAT(run({}, {"/usr/bin/perl", "-e", "fork() // die; wait; print 1+1"}), ended_with(0));
  EXPECT_THAT(probe({}, {"thread"}), ended_with(0));
}

TEST_P(Seccomp, ForbiddenCallsAreAllRefused) {
  const Outcome outcome = probe({}, {"forbidden_sweep"});
  EXPECT_THAT(outcome, ended_with(EPERM));
  EXPECT_EQ(lines_after(outcome.out, "passed "), Words{});
}

TEST_P(Seccomp, DangerousCallsSayEperm) {
  for (const char* name :
       {"io_uring", "io_uring_enter", "io_uring_register", "keyctl", "add_key", "request_key",
        "bpf", "userfaultfd", "perf", "open_by_handle", "ptrace_child", "seccomp_listener"}) {
    EXPECT_THAT(probe({}, {name}), ended_with(EPERM)) << name;
  }
  EXPECT_THAT(probe({}, {"process_vm", "1"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"pidfd_getfd", "1"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"kcmp", "1"}), ended_with(EPERM));
}

TEST_P(Seccomp, UnknownCallsSayEnosys) {
  for (const char* number : {"500", "1000", "4095", "100000"}) {
    EXPECT_THAT(probe({}, {"syscall", number}), ended_with(ENOSYS)) << number;
  }
  EXPECT_THAT(probe({}, {"clone3"}), ended_with(ENOSYS));
}

// What few programs need is absent, and comes back by name.
TEST_P(Seccomp, GroupsComeBackByName) {
  const std::pair<const char*, int> calls[] = {{"sysv-ipc", SYS_semget},
                                               {"mqueue", SYS_mq_unlink},
                                               {"numa", SYS_get_mempolicy},
                                               {"splice", SYS_tee},
                                               {"sync", SYS_syncfs}};
  for (const auto& [group, number] : calls) {
    const Words words{"syscall", std::to_string(number), "-1"};
    EXPECT_THAT(probe({}, words), ended_with(ENOSYS)) << group;
    EXPECT_THAT(probe({"--allow", std::string("syscalls=") + group}, words),
                testing::Not(ended_with(ENOSYS)))
        << group;
  }
  EXPECT_THAT(run({"--allow", "syscalls=all"}, {"true"}), refused_to_start("sysv-ipc"));
}

TEST_P(Seccomp, RequestsAreAnAllowList) {
  const std::string ioctl = std::to_string(SYS_ioctl);
  const std::string prctl = std::to_string(SYS_prctl);
  EXPECT_THAT(probe({}, {"syscall", ioctl, "-1", "0x5413"}), ended_with(EBADF)) << "TIOCGWINSZ";
  EXPECT_THAT(probe({}, {"syscall", ioctl, "-1", "0xb702"}), ended_with(ENOTTY)) << "NS_GET_PARENT";
  EXPECT_THAT(probe({"--allow", "syscalls=ioctl"}, {"syscall", ioctl, "-1", "0xb702"}),
              ended_with(EBADF));
  EXPECT_THAT(probe({"--allow", "syscalls=ioctl"}, {"syscall", ioctl, "-1", "0x5412"}),
              ended_with(EPERM))
      << "TIOCSTI stays refused";
  EXPECT_THAT(probe({}, {"syscall", prctl, "39"}), ended_with(0)) << "PR_GET_NO_NEW_PRIVS";
  EXPECT_THAT(probe({}, {"syscall", prctl, "62", "0"}), ended_with(EINVAL)) << "PR_SCHED_CORE";
}

TEST_P(Seccomp, NewListenersAndTracersAreRefused) {
  EXPECT_THAT(probe({}, {"ptrace", "1"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"ptrace_seize", "1"}), ended_with(EPERM));
}

TEST_P(Seccomp, PersonalitiesThatWeakenAreRefused) {
  EXPECT_THAT(probe({}, {"personality", "0xffffffff"}), ended_with(0)) << "asking is allowed";
  EXPECT_THAT(probe({}, {"personality", "0"}), ended_with(0));
  EXPECT_THAT(probe({}, {"personality", std::to_string(READ_IMPLIES_EXEC)}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"personality", std::to_string(MMAP_PAGE_ZERO)}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"personality", "0x0008"}), ended_with(EPERM)) << "PER_LINUX32";
}

TEST_P(Seccomp, CloneFlagsAreLookedAt) {
  // Everything at once, and with bits above the 32 that the kernel reads.
  const std::string flags = std::to_string(CLONE_NEWUSER | CLONE_NEWNS | 17UL);
  EXPECT_THAT(probe({}, {"syscall", std::to_string(SYS_clone), flags}), ended_with(EPERM));
  const std::string high = std::to_string((1UL << 40) | CLONE_NEWUSER | 17UL);
  EXPECT_THAT(probe({}, {"syscall", std::to_string(SYS_clone), high}), ended_with(EPERM));
}

TEST_P(Seccomp, OtherArchitecturesGetNowhere) {
  constexpr int kKilledBySigsys = 128 + SIGSYS;
  for (const char* name : {"int80_getpid", "int80_socket", "int80_ptrace", "x32_getpid"}) {
    EXPECT_THAT(probe({}, {name}), refused_with(Errnos{ENOSYS, EPERM, kKilledBySigsys})) << name;
  }
}

TEST_P(Seccomp, SocketFamiliesAreAnAllowList) {
  EXPECT_THAT(probe({}, {"socket", "1", "1"}), ended_with(0));
  EXPECT_THAT(probe({}, {"socket", "2", "1"}), ended_with(0));
  EXPECT_THAT(probe({}, {"socket", "10", "2"}), ended_with(0));
  EXPECT_THAT(probe({}, {"socket", "2", "3", "1"}), ended_with(EPERM)) << "raw ICMP";
  for (const char* family : {"16", "17", "38", "40", "44", "31", "29", "45"}) {
    EXPECT_THAT(probe({}, {"socket", family, "3"}), refused_with(Errnos{EAFNOSUPPORT, EPERM}))
        << family;
  }
}

BOX_TEST_TIERS(Seccomp);

}  // namespace
}  // namespace glovebox::test
