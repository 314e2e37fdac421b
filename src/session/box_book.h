// What the manager knows of a box until the launcher has reported it gone.
#pragma once

#include "session/box_session.h"

#include <memory>

namespace glovebox::session {

struct BoxBook {
  explicit BoxBook(asio::io_context& loop) : gone(loop) {}
  std::weak_ptr<BoxSession> session;
  Wakeup gone;
  bool is_gone = false;
};

}  // namespace glovebox::session
