// Which denials of a box are told one by one.
//
// A box decides how often it is denied something: ten thousand times a second, for as long as it
// lives. A log of denials would grow as fast. The same denial is told once in a while, with how
// many there were, and different ones come no faster than a person could want to know.
#pragma once

#include "egress/rules/network_event.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace glovebox::egress {

class DenialGate {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kAgain{1};  // after which the same is told again
  static constexpr double kPerSecond = 20;
  static constexpr double kBurst = 100;
  static constexpr std::size_t kMostKnown = 256;

  // How many denials this one stands for: itself, and those like it that were not told. 0: it is
  // not told.
  std::uint64_t take(const Denied& denied, Clock::time_point now) {
    return take(to_text(denied), now);
  }
  // The same for denials of other kinds, by what they say.
  std::uint64_t take(const std::string& text, Clock::time_point now);

 private:
  struct Known {
    Clock::time_point told;
    std::uint64_t untold = 0;
  };
  bool may_tell(Clock::time_point now);
  void make_room(Clock::time_point now);

  std::map<std::string, Known> known_;  // by what it says
  double allowance_ = kBurst;
  Clock::time_point counted_;
};

}  // namespace glovebox::egress
