#include "serve/replay_buffer.h"

#include <algorithm>

namespace glovebox::serve {

void ReplayBuffer::add(std::string_view events) {
  while (!events.empty()) {
    const std::size_t end = std::min(events.find("\n\n"), events.size() - 2) + 2;
    events_.emplace_back(events.substr(0, end));
    events.remove_prefix(end);
    bytes_ += end;
    unsent_bytes_ += end;
    ++next_id_;
  }
  drop_sent();
}

std::string ReplayBuffer::take(std::size_t most) {
  std::string taken;
  while (next_to_send_ < next_id_) {
    const std::string& event = events_[next_to_send_ - first_id_];
    if (!taken.empty() && taken.size() + event.size() > most) break;
    taken += event;
    unsent_bytes_ -= event.size();
    ++next_to_send_;
  }
  drop_sent();
  return taken;
}

void ReplayBuffer::rewind(std::uint64_t id) {
  next_to_send_ = id + 1;
  unsent_bytes_ = 0;
  for (std::uint64_t i = next_to_send_; i < next_id_; ++i) {
    unsent_bytes_ += events_[i - first_id_].size();
  }
}

void ReplayBuffer::drop_sent() {
  while (bytes_ > most_bytes_ && first_id_ < next_to_send_) {
    bytes_ -= events_.front().size();
    events_.pop_front();
    ++first_id_;
  }
}

}  // namespace glovebox::serve
