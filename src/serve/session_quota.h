// Room for sessions that are about to be made.
//
// A caller may have so many sessions at a time. One that is being made is in no list yet, and many
// requests can be under way at once: each takes its room before it waits for anything, and gives it
// back when its answer is known, by which time the session is in the list or is none. For a moment
// before that it may count twice, which is the safe side.
#pragma once

#include "serve/service.h"

#include <cstddef>
#include <memory>
#include <string>

namespace glovebox::serve {

class Room {
 public:
  // Takes room for `count` sessions of the caller; 429 when that is more than it may have. 507 when
  // the layers of all sessions have used up the disk that they may (upper_max_bytes).
  static Result<Room, ApiError> take(const Call& call, std::size_t count);

  Room(Room&& other) noexcept = default;
  Room& operator=(Room&&) = delete;
  ~Room();

 private:
  Room(std::shared_ptr<Rooms> rooms, std::string who, std::size_t count)
      : rooms_(std::move(rooms)), who_(std::move(who)), count_(count) {}

  std::shared_ptr<Rooms> rooms_;  // none: there is no bound to keep
  std::string who_;
  std::size_t count_ = 0;
};

}  // namespace glovebox::serve
