#include "async/semaphore.h"

#include "async/co_try.h"

#include <algorithm>
#include <cerrno>

namespace glovebox::session {

asio::awaitable<Result<Semaphore::Permit>> Semaphore::take(WhenBusy when_busy) {
  const auto self = shared_from_this();
  if (closed_) co_return unexpected(*closed_);
  if (free_ > 0) {
    --free_;
  } else {
    if (when_busy == WhenBusy::Refuse) co_return fail(Code::Exhausted, "{} is busy", what_);
    if (waiting_.size() >= kMaxWaiters) {
      co_return fail(Code::Exhausted, "{} others wait for {} already", waiting_.size(), what_);
    }
    auto waiter = std::make_shared<Waiter>(*loop_);
    CO_TRY_VOID(co_await wait(waiter));
  }
  co_return Permit(shared_from_this());
}

asio::awaitable<Result<void>> Semaphore::wait(std::shared_ptr<Waiter> waiter) {
  waiting_.push_back(waiter);
  // However the wait ends, also by an exception or with the coroutine: a permit that came is passed
  // on, and a place in the queue is given up.
  struct Place {
    Semaphore& semaphore;
    const std::shared_ptr<Waiter>& waiter;
    bool is_used = false;
    ~Place() {
      if (is_used) return;
      if (waiter->has_permit) semaphore.pass_on();
      std::erase(semaphore.waiting_, waiter);
    }
  };
  Place place{*this, waiter};
  while (!waiter->has_permit && !closed_) {
    const Woken woken = co_await waiter->wakeup.wait();
    if (woken == Woken::Canceled) {
      co_return unexpected(Error{Code::Os, ECANCELED, "it was canceled before its turn"});
    }
  }
  if (closed_) co_return unexpected(*closed_);
  place.is_used = true;
  co_return Result<void>();
}

void Semaphore::pass_on() {
  if (waiting_.empty()) {
    ++free_;
    return;
  }
  const std::shared_ptr<Waiter> next = waiting_.front();
  waiting_.pop_front();
  next->has_permit = true;
  next->wakeup.notify();
}

void Semaphore::close(Error reason) {
  if (closed_) return;
  closed_ = std::move(reason);
  for (const auto& waiter : waiting_) waiter->wakeup.notify();
}

}  // namespace glovebox::session
