// What happens to sessions, for audit, metrics and other listeners.
#pragma once

#include "base/result.h"
#include "session/store/session_info.h"

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace glovebox::session {

enum class EventKind : std::uint8_t {
  Created,
  RunStarted,
  RunEnded,
  Denied,   // something was asked for that is not allowed
  Ended,    // the box is gone
  Deleted,  // and so is the session
  Committed,
  Undone,
  Narrowed,      // its policy was reloaded, and the box lost something
  Recycled,      // a fresh box took the place of the old one
  Forked,        // others began where this one was
  Checkpointed,  // written out as a file
  LayerGivenUp,  // what it had left behind was removed: too old, too many, or no room
};
// "created", "run_started", ...
std::string_view to_text(EventKind kind);

// What was refused, in the words of a policy. The same as a Python session's own denials have.
struct DenialWords {
  std::string capability;  // that was missing: "connect_tcp", "read_path"
  std::string action;      // what was tried
  std::string rule;        // that decided: "authority:..." when nothing grants it
  friend bool operator==(const DenialWords&, const DenialWords&) = default;
};

struct SessionEvent {
  std::uint64_t number = 0;  // counts all events of this SessionManager from 1
  EventKind kind = EventKind::Created;
  WallTime at;
  std::string session;  // its id; empty when a session was refused before it had one
  std::string policy_digest;
  std::optional<RunRecord> run;
  std::optional<SessionEnd> end;
  DenialWords denial;  // Denied: of what a box tried; empty otherwise
  std::string detail;  // Denied: what, and what was missing. Committed: how much. Narrowed: what
  friend bool operator==(const SessionEvent&, const SessionEvent&) = default;
};

// A watcher's own queue. It is bounded: who does not keep up loses the oldest, and is told how
// many.
class EventFeed {
 public:
  static constexpr std::size_t kCapacity = 1024;

  virtual ~EventFeed() = default;

  struct Next {
    SessionEvent event;
    std::uint64_t lost = 0;  // events that were dropped right before this one
  };
  // Code::NotFound when the SessionManager has ended.
  virtual boost::asio::awaitable<Result<Next>> next() = 0;
};

}  // namespace glovebox::session
