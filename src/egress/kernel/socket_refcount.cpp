#include "egress/kernel/socket_refcount.h"

#include <cerrno>

#include <sys/epoll.h>

namespace glovebox::egress {

Result<LastReference> LastReference::open() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_os(errno, "make an epoll");
  return LastReference(std::move(epoll));
}

bool LastReference::close(UniqueFd socket) {
  epoll_event event{};
  if (!epoll_ || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) return false;
  socket.reset();
  if (::epoll_wait(epoll_.get(), &event, 1, 0) == 0) return true;
  // It cannot be taken out any more: that needs a number that means it.
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  return false;
}

}  // namespace glovebox::egress
