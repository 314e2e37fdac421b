#include "egress/rules/denial_limiter.h"

#include <algorithm>
#include <utility>

namespace glovebox::egress {

bool DenialGate::may_tell(Clock::time_point now) {
  const std::chrono::duration<double> passed = now - counted_;
  counted_ = now;
  allowance_ = std::min(kBurst, allowance_ + passed.count() * kPerSecond);
  if (allowance_ < 1) return false;
  allowance_ -= 1;
  return true;
}

// What was told longest ago goes, and with it how many like it were not.
void DenialGate::make_room(Clock::time_point now) {
  std::erase_if(known_, [now](const auto& entry) {
    return entry.second.untold == 0 && now - entry.second.told >= kAgain;
  });
  if (known_.size() < kMostKnown) return;
  known_.erase(
      std::ranges::min_element(known_, {}, [](const auto& entry) { return entry.second.told; }));
}

std::uint64_t DenialGate::take(const std::string& text, Clock::time_point now) {
  auto found = known_.find(text);
  const bool is_new = found == known_.end();
  if (is_new) {
    if (known_.size() >= kMostKnown) make_room(now);
    found = known_.emplace(text, Known{now, 0}).first;
  }
  Known& known = found->second;
  if ((!is_new && now - known.told < kAgain) || !may_tell(now)) {
    ++known.untold;
    return 0;
  }
  known.told = now;
  return std::exchange(known.untold, 0) + 1;
}

}  // namespace glovebox::egress
