// What the manager knows of a box until the launcher has reported it gone.
#pragma once

#include "session/box/box_session.h"

#include <memory>
#include <vector>

namespace glovebox::session {

struct RunningBox {
  struct Waiter {
    explicit Waiter(asio::io_context& loop) : wakeup(loop) {}
    Wakeup wakeup;
    bool is_late = false;
  };

  std::weak_ptr<BoxSession> session;
  bool is_gone = false;
  std::vector<std::shared_ptr<Waiter>> waiters;

  void end() {
    is_gone = true;
    for (const auto& waiter : waiters) waiter->wakeup.notify();
  }
};

}  // namespace glovebox::session
