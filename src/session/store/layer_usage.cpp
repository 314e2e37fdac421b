#include "session/store/layer_usage.h"

#include <algorithm>

namespace glovebox::session {

std::uint64_t LayerUsage::bytes() const {
  const std::scoped_lock lock(mutex_);
  return sum();
}

bool LayerUsage::is_measured() const {
  const std::scoped_lock lock(mutex_);
  return is_measured_;
}

Result<void> LayerUsage::take(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t room = most_ - std::min(most_, sum());
  if (most_ > 0 && bytes > room) {
    return fail(Code::Exhausted,
                "the layers of all sessions hold {} bytes, and {} is the most (upper_max_bytes)",
                sum(), most_);
  }
  taken_ += bytes;
  return {};
}

LayerUsage::Mark LayerUsage::begin_measure() const {
  const std::scoped_lock lock(mutex_);
  return taken_;
}

void LayerUsage::end_measure(Mark mark, std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (mark < seen_) return;  // another began later and was done before
  is_measured_ = true;
  seen_ = mark;
  measured_ = bytes;
}

}  // namespace glovebox::session
