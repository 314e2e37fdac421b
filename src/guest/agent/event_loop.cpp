#include "guest/agent/event_loop.h"

#include <array>
#include <span>
#include <utility>

namespace glovebox::guest {

Result<EventLoop> EventLoop::open() {
  TRY(Epoll epoll, Epoll::open());
  return EventLoop(std::move(epoll));
}

Result<void> EventLoop::watch(BorrowedFd fd, std::uint32_t events, Handler handler) {
  const std::uint64_t token = next_token_++;
  TRY_VOID(epoll_.add(fd, events, token));
  watches_[fd.get()] = {token, events, std::make_shared<Handler>(std::move(handler))};
  fd_of_token_[token] = fd.get();
  return {};
}

void EventLoop::change(BorrowedFd fd, std::uint32_t events) {
  const auto found = watches_.find(fd.get());
  if (found == watches_.end() || found->second.events == events) return;
  // It fails only for a descriptor that is not in the set, and this one is.
  (void)epoll_.change(fd, events, found->second.token);
  found->second.events = events;
}

void EventLoop::forget(BorrowedFd fd) {
  const auto found = watches_.find(fd.get());
  if (found == watches_.end()) return;
  epoll_.remove(fd);
  fd_of_token_.erase(found->second.token);
  watches_.erase(found);
}

Result<void> EventLoop::wait(int timeout_ms) {
  std::array<epoll_event, 32> room;
  TRY(const std::span<const epoll_event> ready, epoll_.wait(room, timeout_ms));
  for (const epoll_event& event : ready) {
    const std::uint64_t token = event.data.u64;  // a copy: the structure is packed
    const auto fd = fd_of_token_.find(token);
    if (fd == fd_of_token_.end()) continue;
    const std::shared_ptr<Handler> handler = watches_.at(fd->second).handler;
    (*handler)(event.events);
  }
  return {};
}

}  // namespace glovebox::guest
