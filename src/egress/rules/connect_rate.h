// How often one box connects to one destination: a bucket of tokens for each address and port.
//
// A bucket holds as many tokens as its budget has connections in a second, and gets them back at
// that pace: so many at once, and then so many each second. What is spent is the attempt, however
// it ends, because the destination has seen it.
//
// The box chooses where it connects to, so the number of buckets is bounded. One that is full again
// is as good as none and makes room; while none is, a destination that has no bucket is refused.
// Forgetting one instead would give a box that goes round among many all of them anew.
#pragma once

#include "egress/kernel/address.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace glovebox::egress {

class ConnectRate {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMostDestinations = 1024;

  enum class Spent : std::uint8_t {
    Yes,
    TooSoon,              // the bucket of this destination is empty
    TooManyDestinations,  // none is full among as many as are kept
  };

  // From now on. Nothing: as often as it likes. What was spent so far still counts.
  void set(std::optional<std::uint64_t> per_second);
  std::optional<std::uint64_t> per_second() const { return per_second_; }

  // Takes a token for one connection; there is nothing to give back.
  Spent spend(const Endpoint& to, Clock::time_point now);

  std::size_t destinations() const { return full_at_.size(); }

 private:
  using Destination = std::pair<authority::IpNetwork, std::uint16_t>;

  bool make_room(Clock::time_point now);

  std::optional<std::uint64_t> per_second_;
  std::chrono::nanoseconds pace_{0};   // in which one token comes back
  std::chrono::nanoseconds depth_{0};  // in which all but one do
  // When the bucket of a destination is full again: that says how empty it is.
  std::map<Destination, Clock::time_point> full_at_;
  Clock::time_point first_full_;  // no bucket is full before
};

}  // namespace glovebox::egress
