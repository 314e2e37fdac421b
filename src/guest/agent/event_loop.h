// The agent's only wait: an epoll set with a function per descriptor.
#pragma once

#include "base/epoll.h"
#include "base/result.h"
#include "base/unique_fd.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace glovebox::guest {

class EventLoop {
 public:
  using Handler = std::function<void(std::uint32_t events)>;

  static Result<EventLoop> open();

  // `fd` must be forgotten before it is closed. `events` are epoll's; 0 waits for a hang-up alone.
  Result<void> watch(BorrowedFd fd, std::uint32_t events, Handler handler);
  void change(BorrowedFd fd, std::uint32_t events);
  void forget(BorrowedFd fd);

  // Waits up to `timeout_ms` (-1: for ever) and calls the handlers of what happened. A handler may
  // watch and forget what it likes: events of a forgotten descriptor are dropped, also when its
  // number was given to another in the meantime.
  Result<void> wait(int timeout_ms);

 private:
  struct Watch {
    std::uint64_t token;
    std::uint32_t events;
    std::shared_ptr<Handler> handler;
  };

  explicit EventLoop(Epoll epoll) : epoll_(std::move(epoll)) {}

  Epoll epoll_;
  std::uint64_t next_token_ = 1;
  std::map<int, Watch> watches_;
  std::map<std::uint64_t, int> fd_of_token_;
};

}  // namespace glovebox::guest
