// So many at a time, the others in the order of arrival: for a session's shell, which takes one run
// at a time, for the layers of a session, and for the launcher. The loop's thread only.
//
//   CO_TRY(const Semaphore::Permit permit, co_await semaphore->take(WhenBusy::Wait));
#pragma once

#include "async/event.h"
#include "async/when_busy.h"
#include "base/result.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace glovebox::session {

namespace asio = boost::asio;

// The most that wait for one semaphore; more is Code::Exhausted.
inline constexpr std::size_t kMaxWaiters = 1024;

class Semaphore : public std::enable_shared_from_this<Semaphore> {
 public:
  // Lasts until it is destroyed or released; then the next in the queue has it. Keeps the semaphore
  // alive.
  class Permit {
   public:
    Permit() = default;
    Permit(Permit&&) = default;
    Permit& operator=(Permit&& other) noexcept {
      std::swap(of_, other.of_);
      other.release();
      return *this;
    }
    ~Permit() { release(); }
    void release() {
      if (const auto of = std::exchange(of_, nullptr)) of->pass_on();
    }

   private:
    friend class Semaphore;
    explicit Permit(std::shared_ptr<Semaphore> of) : of_(std::move(of)) {}
    std::shared_ptr<Semaphore> of_;
  };

  // `what` is what the permits are for, for people: "the session's shell".
  Semaphore(asio::io_context& loop, std::size_t permits, std::string what)
      : loop_(&loop), free_(permits), what_(std::move(what)) {}

  asio::awaitable<Result<Permit>> take(WhenBusy when_busy);
  bool is_taken() const { return free_ == 0; }
  std::size_t waiting() const { return waiting_.size(); }
  // No more permits: those who wait get the error.
  void close(Error reason);

 private:
  struct Waiter {
    explicit Waiter(asio::io_context& loop) : wakeup(loop) {}
    Wakeup wakeup;
    bool has_permit = false;
  };

  void pass_on();
  asio::awaitable<Result<void>> wait(std::shared_ptr<Waiter> waiter);

  asio::io_context* loop_;
  std::size_t free_;
  std::string what_;
  std::deque<std::shared_ptr<Waiter>> waiting_;
  std::optional<Error> closed_;
};

}  // namespace glovebox::session
