#include "egress/kernel/socket_refcount.h"

namespace glovebox::egress {

Result<LastReference> LastReference::open() {
  TRY(Epoll epoll, Epoll::open());
  return LastReference(std::move(epoll));
}

bool LastReference::close(UniqueFd socket) {
  if (!epoll_.add(socket, 0)) return false;
  socket.reset();
  epoll_event event{};
  const auto ready = epoll_.wait({&event, 1}, 0);
  if (ready && ready->empty()) return true;
  // It cannot be taken out any more: that needs a number that means it.
  epoll_ = Epoll::open().value_or(Epoll());
  return false;
}

}  // namespace glovebox::egress
