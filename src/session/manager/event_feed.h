// Events to all who watch. The loop's thread only.
#pragma once

#include "async/event.h"
#include "session/store/session_event.h"

#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace glovebox::session {

class EventHub {
 public:
  explicit EventHub(boost::asio::io_context& loop) : loop_(&loop) {}
  ~EventHub() { close(); }
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;

  void observe(std::function<void(const SessionEvent&)> observer);
  std::unique_ptr<EventFeed> watch();
  // Gives it its number and tells everybody.
  void tell(SessionEvent event);
  void close();

 private:
  struct Queue {
    explicit Queue(boost::asio::io_context& loop) : wakeup(loop) {}
    Wakeup wakeup;
    std::deque<SessionEvent> events;
    std::uint64_t lost = 0;
    bool is_closed = false;
  };
  class Feed;

  boost::asio::io_context* loop_;
  std::uint64_t told_ = 0;
  std::vector<std::function<void(const SessionEvent&)>> observers_;
  std::vector<std::weak_ptr<Queue>> queues_;
};

}  // namespace glovebox::session
