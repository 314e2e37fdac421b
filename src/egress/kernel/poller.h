// An epoll loop that its owner drives: one descriptor that becomes readable when there is work.
//
// The broker has many things to wait for (listeners, sockets, answers to questions for names) and
// lives in the loop of a supervisor that knows nothing of them. Handlers are called from
// run_ready() alone, on the caller's thread. A handler may add and remove others, and itself.
#pragma once

#include "base/epoll.h"
#include "base/result.h"
#include "base/unique_fd.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

namespace glovebox::egress {

class Poller {
 public:
  using Clock = std::chrono::steady_clock;
  using Handler = std::function<void(std::uint32_t events)>;
  using Token = std::uint64_t;  // names a watch or a timer; never used twice
  static constexpr Token kNone = 0;

  static Result<std::unique_ptr<Poller>> open();

  BorrowedFd fd() const { return epoll_.fd(); }

  // `events` are EPOLLIN and EPOLLOUT, level-triggered. The descriptor stays the caller's, who
  // calls unwatch() before closing it.
  Result<Token> watch(BorrowedFd fd, std::uint32_t events, Handler handler);
  Result<void> change(Token token, std::uint32_t events);
  void unwatch(Token token);

  Token call_at(Clock::time_point when, std::function<void()> action);
  void cancel(Token timer);

  // Calls the handlers of what is ready, each at most once, and the timers that are due.
  void run_ready();

 private:
  struct Watch {
    int fd;
    std::shared_ptr<Handler> handler;
  };
  Poller(Epoll epoll, UniqueFd timer) : epoll_(std::move(epoll)), timer_(std::move(timer)) {}
  void run_timers();
  void set_timer();

  Epoll epoll_;
  UniqueFd timer_;
  Token last_ = kNone;
  std::unordered_map<Token, Watch> watches_;
  std::map<std::pair<Clock::time_point, Token>, std::function<void()>> timers_;
  std::unordered_map<Token, Clock::time_point> due_;
  Clock::time_point set_for_ = Clock::time_point::max();
};

}  // namespace glovebox::egress
