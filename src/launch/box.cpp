#include "launch/box.h"

#include <cerrno>
#include <csignal>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::launch {

void Box::kill() const {
  // A box that has ended already is no failure; one that cannot be signalled this way is not reaped
  // yet either, so its pid is still its own.
  if (init && ::syscall(SYS_pidfd_send_signal, init.get(), SIGKILL, nullptr, 0) != 0 &&
      errno != ESRCH) {
    (void)::kill(pid, SIGKILL);
  }
}

void Box::kill_and_reap() const {
  if (!init) return;
  kill();
  siginfo_t info{};
  while (::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(init.get()), &info, WEXITED) !=
             0 &&
         errno == EINTR) {
  }
}

}  // namespace glovebox::launch
