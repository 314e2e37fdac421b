// Whose turn it is: so many at a time, the others in the order of arrival. For a session's shell,
// which takes one run at a time, and for the launcher.
#pragma once

#include "async/event.h"
#include "session/box/live_session.h"

#include <deque>
#include <memory>

namespace glovebox::session {

// The most that wait in one queue; more is Code::Exhausted.
inline constexpr std::size_t kMaxWaiters = 1024;

class TurnQueue : public std::enable_shared_from_this<TurnQueue> {
 public:
  // `what` is what the turns are for, for people: "the session's shell".
  TurnQueue(asio::io_context& loop, std::size_t slots, std::string what)
      : loop_(&loop), free_(slots), what_(std::move(what)) {}

  // The turn lasts until the token is destroyed.
  asio::awaitable<Result<std::unique_ptr<LiveSession::ShellTurn>>> take(WhenBusy when_busy);
  bool is_taken() const { return free_ == 0; }
  std::size_t waiting() const { return waiting_.size(); }
  // Nobody gets a turn any more: those who wait get the error.
  void close(Error reason);

 private:
  struct Waiter {
    explicit Waiter(asio::io_context& loop) : wakeup(loop) {}
    Wakeup wakeup;
    bool has_turn = false;
  };
  class Turn;

  void pass_on();
  asio::awaitable<Result<void>> wait(std::shared_ptr<Waiter> waiter);

  asio::io_context* loop_;
  std::size_t free_;
  std::string what_;
  std::deque<std::shared_ptr<Waiter>> waiting_;
  std::optional<Error> closed_;
};

}  // namespace glovebox::session
