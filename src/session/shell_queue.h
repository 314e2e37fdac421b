// Whose turn it is to use the session's shell: one at a time, in the order of arrival.
#pragma once

#include "session/live_session.h"
#include "session/wakeup.h"

#include <deque>
#include <memory>

namespace glovebox::session {

// The most that wait for one shell; more is Code::Exhausted.
inline constexpr std::size_t kMaxShellWaiters = 1024;

class ShellQueue : public std::enable_shared_from_this<ShellQueue> {
 public:
  explicit ShellQueue(asio::io_context& loop) : loop_(&loop) {}

  // The turn lasts until the token is destroyed.
  asio::awaitable<Result<std::unique_ptr<LiveSession::ShellTurn>>> take(WhenBusy when_busy);
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
  bool is_taken_ = false;
  std::deque<std::shared_ptr<Waiter>> waiting_;
  std::optional<Error> closed_;
};

}  // namespace glovebox::session
