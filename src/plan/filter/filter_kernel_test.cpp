// The filter, installed.
#include "plan/filter/filter_test_support.h"

#include <cerrno>
#include <csignal>
#include <functional>
#include <thread>

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::plan {
namespace {

int errno_of(long result) { return result < 0 ? errno : 0; }

int install(const Program& program, unsigned flags = 0) {
  sock_fprog filter = {static_cast<unsigned short>(program.size()),
                       const_cast<sock_filter*>(program.data())};
  return errno_of(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter));
}

// Runs the work in a child under the default filter; gives its wait status.
int run_filtered(const std::function<int()>& work) {
  const Program program = compile_filter(default_filter_rules());
  const pid_t child = fork();
  if (child == 0) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(120);
    if (install(program) != 0) _exit(121);
    _exit(work());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

int exit_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

TEST(FilterKernel, RefusesWhatTheRulesRefuse) {
  struct Case {
    const char* what;
    int expected;
    std::function<long()> call;
  };
  const Case cases[] = {
      {"getpid", 0, [] { return syscall(SYS_getpid); }},
      {"a number far past the table", ENOSYS, [] { return syscall(5000); }},
      {"clone3", ENOSYS, [] { return syscall(SYS_clone3, nullptr, 0); }},
      {"a user namespace", EPERM, [] { return syscall(SYS_unshare, CLONE_NEWUSER); }},
      {"a user namespace by clone", EPERM,
       [] { return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0); }},
      {"unshare of files", 0, [] { return syscall(SYS_unshare, CLONE_FILES); }},
      {"ptrace", EPERM, [] { return syscall(SYS_ptrace, 0, 0, 0, 0); }},
      {"TIOCSTI", EPERM, [] { return syscall(SYS_ioctl, -1, TIOCSTI, nullptr); }},
      {"TIOCSTI with a high bit", EPERM,
       [] { return syscall(SYS_ioctl, -1, TIOCSTI | kHighBit, nullptr); }},
      {"another ioctl", EBADF, [] { return syscall(SYS_ioctl, -1, TIOCGWINSZ, nullptr); }},
      {"an ioctl that is not listed", ENOTTY,
       [] { return syscall(SYS_ioctl, -1, 0xb702, nullptr); }},
      {"a prctl that is not listed", EINVAL, [] { return syscall(SYS_prctl, 62, 0, 0, 0, 0); }},
      {"System V semaphores", ENOSYS, [] { return syscall(SYS_semget, 0, 1, 0600); }},
      {"netlink", EAFNOSUPPORT, [] { return syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 0); }},
      {"a raw socket", EPERM, [] { return syscall(SYS_socket, AF_INET, SOCK_RAW, 1); }},
      {"a local socket", 0, [] { return syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0); }},
      {"a pair of sockets", 0,
       [] {
         int pair[2];
         return syscall(SYS_socketpair, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair);
       }},
      {"set-user-ID", EPERM, [] { return syscall(SYS_fchmod, -1, 04755); }},
      {"a plain mode", EBADF, [] { return syscall(SYS_fchmod, -1, 0755); }},
      {"setgroups", EPERM, [] { return syscall(SYS_setgroups, 0, nullptr); }},
      {"asking for the personality", 0, [] { return syscall(SYS_personality, 0xffff'ffff); }},
      {"32-bit personality", EPERM, [] { return syscall(SYS_personality, 8); }},
  };
  for (const auto& [what, expected, call] : cases) {
    EXPECT_EQ(exit_code(run_filtered([&call] { return errno_of(call()); })), expected) << what;
  }
}

TEST(FilterKernel, LetsOrdinaryProgramsRun) {
  EXPECT_EQ(exit_code(run_filtered([] {
              int ran = 0;
              std::thread([&ran] { ran = 7; }).join();
              return ran;
            })),
            7);
  EXPECT_EQ(exit_code(run_filtered([] {
              execl("/bin/sh", "sh", "-c", "test \"$(ls -l / | sort | head -n 1)\" && exit 9",
                    nullptr);
              return 1;
            })),
            9);
}

TEST(FilterKernel, LetsAProgramAddAFilterWithoutAListener) {
  const Program more = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  EXPECT_EQ(exit_code(run_filtered([&more] { return install(more); })), 0);
  EXPECT_EQ(
      exit_code(run_filtered([&more] { return install(more, SECCOMP_FILTER_FLAG_NEW_LISTENER); })),
      EPERM);
}

TEST(FilterKernel, TakesALongProgram) {
  // Past the numbers that exist, so that the child lives to tell.
  const FilterRules rules = scattered_rules(/*first=*/1000);
  const Program program = compile_filter(rules);
  ASSERT_GT(program.size(), 1500u);
  EXPECT_EQ(exit_code(run_filtered([&program] { return install(program); })), 0);
}

#if defined(__x86_64__)
TEST(FilterKernel, RefusesTheX32Entry) {
  EXPECT_EQ(exit_code(run_filtered([] { return errno_of(syscall(0x4000'0000 | SYS_getpid)); })),
            ENOSYS);
}

TEST(FilterKernel, KillsWhoeverUsesThe32BitEntry) {
  const int end = exit_code(run_filtered([] {
    long result = 20;  // getpid of i386
    asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    return 3;
  }));
  if (end == -SIGSEGV) GTEST_SKIP() << "this kernel has no 32-bit entry";
  EXPECT_EQ(end, -SIGSYS);
}
#endif

}  // namespace
}  // namespace glovebox::plan
