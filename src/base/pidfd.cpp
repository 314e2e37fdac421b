#include "base/pidfd.h"

#include <cerrno>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox {

Result<UniqueFd> open_pidfd(pid_t pid, unsigned flags) {
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, flags)));
  if (!process) return fail_os(errno, "open process {}", pid);
  return process;
}

Result<void> kill_process(BorrowedFd pidfd) {
  if (::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0) == 0 || errno == ESRCH) {
    return {};
  }
  return fail_os(errno, "end a process");
}

std::optional<Reaped> reap_process(BorrowedFd pidfd) {
  Reaped reaped;
  // The raw call: glibc's waitid does not pass the usage on.
  while (::syscall(SYS_waitid, P_PIDFD, pidfd.get(), &reaped.info, WEXITED | __WALL,
                   &reaped.usage) != 0) {
    if (errno != EINTR) return std::nullopt;
  }
  return reaped;
}

bool has_ended(BorrowedFd pidfd) {
  siginfo_t info{};
  return ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd.get()), &info,
                  WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 &&
         info.si_pid != 0;
}

}  // namespace glovebox
