#include "session/shell_queue.h"

#include "session/co_try.h"

#include <algorithm>
#include <cerrno>

namespace glovebox::session {

class ShellQueue::Turn final : public LiveSession::ShellTurn {
 public:
  explicit Turn(std::shared_ptr<ShellQueue> queue) : queue_(std::move(queue)) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() override { queue_->pass_on(); }

 private:
  std::shared_ptr<ShellQueue> queue_;
};

asio::awaitable<Result<std::unique_ptr<LiveSession::ShellTurn>>> ShellQueue::take(
    WhenBusy when_busy) {
  if (closed_) co_return unexpected(*closed_);
  if (is_taken_) {
    if (when_busy == WhenBusy::Refuse) {
      co_return fail(Code::Exhausted, "the session's shell is busy with another run");
    }
    if (waiting_.size() >= kMaxShellWaiters) {
      co_return fail(Code::Exhausted, "{} runs wait for the session's shell already",
                     waiting_.size());
    }
    auto waiter = std::make_shared<Waiter>(*loop_);
    CO_TRY_VOID(co_await wait(waiter));
  }
  is_taken_ = true;
  co_return std::make_unique<Turn>(shared_from_this());
}

asio::awaitable<Result<void>> ShellQueue::wait(std::shared_ptr<Waiter> waiter) {
  waiting_.push_back(waiter);
  // However the wait ends, also by an exception or with the coroutine: a turn that came is passed
  // on, and a place in the queue is given up.
  struct Place {
    ShellQueue& queue;
    const std::shared_ptr<Waiter>& waiter;
    bool is_used = false;
    ~Place() {
      if (is_used) return;
      if (waiter->has_turn) queue.pass_on();
      std::erase(queue.waiting_, waiter);
    }
  };
  Place place{*this, waiter};
  while (!waiter->has_turn && !closed_) {
    const Woken woken = co_await waiter->wakeup.wait();
    if (woken == Woken::Canceled) {
      co_return unexpected(Error{Code::Os, ECANCELED, "the run was canceled before its turn"});
    }
  }
  if (closed_) co_return unexpected(*closed_);
  place.is_used = true;
  co_return Result<void>();
}

void ShellQueue::pass_on() {
  is_taken_ = !waiting_.empty();
  if (waiting_.empty()) return;
  const std::shared_ptr<Waiter> next = waiting_.front();
  waiting_.pop_front();
  next->has_turn = true;
  next->wakeup.notify();
}

void ShellQueue::close(Error reason) {
  if (closed_) return;
  closed_ = std::move(reason);
  for (const auto& waiter : waiting_) waiter->wakeup.notify();
}

}  // namespace glovebox::session
