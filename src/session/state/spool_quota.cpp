#include "session/state/spool_quota.h"

#include <cerrno>

namespace glovebox::session {

Result<void> SpoolShare::take(std::uint64_t bytes) {
  GLOVEBOX_CHECK(room_ != nullptr);
  const std::scoped_lock lock(room_->mutex_);
  if (room_->most_ > 0 && (room_->used_ > room_->most_ || bytes > room_->most_ - room_->used_)) {
    return unexpected(
        Error{Code::Os, ENOSPC,
              fmt::format("bodies on their way hold {} bytes, and {} is the most (spool_max_bytes)",
                          room_->used_, room_->most_)});
  }
  room_->used_ += bytes;
  bytes_ += bytes;
  return {};
}

SpoolShare::~SpoolShare() {
  if (!room_) return;
  const std::scoped_lock lock(room_->mutex_);
  room_->used_ -= bytes_;
}

}  // namespace glovebox::session
