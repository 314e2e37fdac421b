#include "session/manager/event_feed.h"

#include <cerrno>
#include <utility>

namespace glovebox::session {

class EventHub::Feed final : public EventFeed {
 public:
  explicit Feed(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}

  boost::asio::awaitable<Result<Next>> next() override {
    const std::shared_ptr<Queue> queue = queue_;
    while (queue->events.empty()) {
      if (queue->is_closed) co_return fail(Code::NotFound, "there are no more events");
      const Woken woken = co_await queue->wakeup.wait();
      if (woken == Woken::Canceled) {
        co_return unexpected(Error{Code::Os, ECANCELED, "waiting for events was canceled"});
      }
    }
    Next next{std::move(queue->events.front()), std::exchange(queue->lost, 0)};
    queue->events.pop_front();
    co_return next;
  }

 private:
  std::shared_ptr<Queue> queue_;
};

void EventHub::observe(std::function<void(const SessionEvent&)> observer) {
  observers_.push_back(std::move(observer));
}

std::unique_ptr<EventFeed> EventHub::watch() {
  auto queue = std::make_shared<Queue>(*loop_);
  queues_.push_back(queue);
  return std::make_unique<Feed>(std::move(queue));
}

void EventHub::tell(SessionEvent event) {
  event.number = ++told_;
  event.at = std::chrono::system_clock::now();
  for (const auto& observer : observers_) observer(event);
  std::erase_if(queues_, [](const std::weak_ptr<Queue>& queue) { return queue.expired(); });
  for (const std::weak_ptr<Queue>& weak : queues_) {
    const std::shared_ptr<Queue> queue = weak.lock();
    if (queue->events.size() >= EventFeed::kCapacity) {
      queue->events.pop_front();
      ++queue->lost;
    }
    queue->events.push_back(event);
    queue->wakeup.notify();
  }
}

void EventHub::close() {
  for (const std::weak_ptr<Queue>& weak : std::exchange(queues_, {})) {
    const std::shared_ptr<Queue> queue = weak.lock();
    if (!queue) continue;
    queue->is_closed = true;
    queue->wakeup.notify();
  }
}

}  // namespace glovebox::session
