#include "base/epoll.h"

#include <cerrno>

namespace glovebox {

Result<Epoll> Epoll::open() {
  UniqueFd fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd) return fail_os(errno, "make an epoll");
  return Epoll(std::move(fd));
}

Result<void> Epoll::control(int act, BorrowedFd fd, std::uint32_t events,
                            std::uint64_t token) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (::epoll_ctl(fd_.get(), act, fd.get(), &event) != 0) {
    return fail_os(errno, "watch a descriptor");
  }
  return {};
}

Result<void> Epoll::add(BorrowedFd fd, std::uint32_t events, std::uint64_t token) const {
  return control(EPOLL_CTL_ADD, fd, events, token);
}

Result<void> Epoll::change(BorrowedFd fd, std::uint32_t events, std::uint64_t token) const {
  return control(EPOLL_CTL_MOD, fd, events, token);
}

void Epoll::remove(BorrowedFd fd) const {
  (void)::epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd.get(), nullptr);
}

Result<std::span<const epoll_event>> Epoll::wait(std::span<epoll_event> room,
                                                 int timeout_ms) const {
  int count = 0;
  do {
    count = ::epoll_wait(fd_.get(), room.data(), static_cast<int>(room.size()), timeout_ms);
  } while (count < 0 && errno == EINTR && timeout_ms == 0);
  if (count < 0 && errno != EINTR) return fail_os(errno, "wait for events");
  return room.first(count < 0 ? 0 : static_cast<std::size_t>(count));
}

}  // namespace glovebox
