#include "guest/agent/event_loop.h"

#include <array>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>

namespace glovebox::guest {

Result<EventLoop> EventLoop::open() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_os(errno, "create an epoll set");
  return EventLoop(std::move(epoll));
}

Result<void> EventLoop::watch(BorrowedFd fd, std::uint32_t events, Handler handler) {
  const std::uint64_t token = next_token_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) {
    return fail_os(errno, "watch a descriptor");
  }
  watches_[fd.get()] = {token, events, std::make_shared<Handler>(std::move(handler))};
  fd_of_token_[token] = fd.get();
  return {};
}

void EventLoop::change(BorrowedFd fd, std::uint32_t events) {
  const auto found = watches_.find(fd.get());
  if (found == watches_.end() || found->second.events == events) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = found->second.token;
  // It fails only for a descriptor that is not in the set, and this one is.
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd.get(), &event);
  found->second.events = events;
}

void EventLoop::forget(BorrowedFd fd) {
  const auto found = watches_.find(fd.get());
  if (found == watches_.end()) return;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd.get(), nullptr);  // as above
  fd_of_token_.erase(found->second.token);
  watches_.erase(found);
}

Result<void> EventLoop::wait(int timeout_ms) {
  std::array<epoll_event, 32> events;
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  if (count < 0 && errno != EINTR) return fail_os(errno, "wait for events");
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events.at(static_cast<std::size_t>(i));
    const std::uint64_t token = event.data.u64;  // a copy: the structure is packed
    const auto fd = fd_of_token_.find(token);
    if (fd == fd_of_token_.end()) continue;
    const std::shared_ptr<Handler> handler = watches_.at(fd->second).handler;
    (*handler)(event.events);
  }
  return {};
}

}  // namespace glovebox::guest
