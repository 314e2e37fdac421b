// A set of descriptors to wait for (epoll(7)). What happens with an event is its owner's matter.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <cstdint>
#include <span>
#include <utility>

#include <sys/epoll.h>

namespace glovebox {

class Epoll {
 public:
  Epoll() = default;  // none: every call fails
  static Result<Epoll> open();

  // Readable when something in the set is ready.
  BorrowedFd fd() const { return fd_; }

  // `events` are EPOLLIN and so on; `token` comes back with each of them.
  Result<void> add(BorrowedFd fd, std::uint32_t events, std::uint64_t token = 0) const;
  Result<void> change(BorrowedFd fd, std::uint32_t events, std::uint64_t token) const;
  // A descriptor that is not in the set is no failure: closing the last copy takes it out too.
  void remove(BorrowedFd fd) const;

  // Waits up to `timeout_ms` (-1: for ever) and gives the part of `room` that was filled. A signal
  // ends the wait with nothing; one of no time is not interrupted. The structure is packed: copy
  // what is in it.
  Result<std::span<const epoll_event>> wait(std::span<epoll_event> room, int timeout_ms) const;

 private:
  explicit Epoll(UniqueFd fd) : fd_(std::move(fd)) {}
  Result<void> control(int act, BorrowedFd fd, std::uint32_t events, std::uint64_t token) const;

  UniqueFd fd_;
};

}  // namespace glovebox
