#include "egress/rules/connect_rate.h"

#include <algorithm>

namespace glovebox::egress {

// Rounded up: a pace that is not a whole number of nanoseconds must not give more than the budget.
void ConnectRate::set(std::optional<std::uint64_t> per_second) {
  per_second_ = per_second;
  if (!per_second) return full_at_.clear();
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const std::uint64_t pace = *per_second >= kSecond ? 1 : (kSecond + *per_second - 1) / *per_second;
  pace_ = std::chrono::nanoseconds(pace);
  depth_ = std::chrono::nanoseconds(pace * (std::min(*per_second, kSecond) - 1));
}

bool ConnectRate::make_room(Clock::time_point now) {
  if (now < first_full_) return false;
  first_full_ = Clock::time_point::max();
  for (auto each = full_at_.begin(); each != full_at_.end();) {
    if (each->second <= now) {
      each = full_at_.erase(each);
    } else {
      first_full_ = std::min(first_full_, each->second);
      ++each;
    }
  }
  return full_at_.size() < kMostDestinations;
}

ConnectRate::Spent ConnectRate::spend(const Endpoint& to, Clock::time_point now) {
  if (!per_second_) return Spent::Yes;
  auto bucket = full_at_.find({to.address, to.port});
  if (bucket == full_at_.end()) {
    if (full_at_.size() >= kMostDestinations && !make_room(now)) return Spent::TooManyDestinations;
    bucket = full_at_.emplace(Destination(to.address, to.port), now).first;
    first_full_ = std::min(first_full_, now + pace_);
  }
  const Clock::time_point full_at = std::max(bucket->second, now);
  if (full_at - now > depth_) return Spent::TooSoon;
  bucket->second = full_at + pace_;
  return Spent::Yes;
}

}  // namespace glovebox::egress
