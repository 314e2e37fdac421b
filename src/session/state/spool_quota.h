// Room for bodies on their way: checkpoints and diffs that are being sent, and checkpoints that are
// being received, lie in files without names until they have gone through. How long that takes is
// up to the client, so together they have a bound of their own on the disk.
//
// Safe to use from several threads at once.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace glovebox::session {

class SpoolQuota {
 public:
  explicit SpoolQuota(std::uint64_t most) : most_(most) {}  // 0: no bound

 private:
  friend class SpoolShare;
  const std::uint64_t most_;
  std::mutex mutex_;
  std::uint64_t used_ = 0;
};

// What one body has taken of the room, given back when it goes. It lives as long as its file.
class SpoolShare {
 public:
  SpoolShare() = default;  // of no room: takes nothing
  explicit SpoolShare(std::shared_ptr<SpoolQuota> room) : room_(std::move(room)) {}
  SpoolShare(SpoolShare&& other) noexcept
      : room_(std::move(other.room_)), bytes_(std::exchange(other.bytes_, 0)) {}
  SpoolShare& operator=(SpoolShare&& other) noexcept {
    std::swap(room_, other.room_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SpoolShare();

  // Before so many bytes are written. ENOSPC when there is no room for them.
  Result<void> take(std::uint64_t bytes);

 private:
  std::shared_ptr<SpoolQuota> room_;
  std::uint64_t bytes_ = 0;
};

}  // namespace glovebox::session
