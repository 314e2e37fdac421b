// How long a box has to wait after a call that kept the broker busy.
//
// What a call takes is the box's choice to some degree (how many descriptors there are to look
// through), so one that took long is followed by a rest: all other boxes together have the larger
// part of the time. Time that passed is not time that was used, on a host where others run, and the
// second has to be asked of the kernel. So a call that seems long is only the reason to measure the
// next ones.
#pragma once

#include <chrono>
#include <optional>

namespace glovebox::egress {

class LongCalls {
 public:
  using Time = std::chrono::nanoseconds;
  static constexpr std::chrono::milliseconds kLong{1};
  static constexpr int kRestFactor = 3;
  static constexpr int kMeasured = 16;  // calls after one that seemed long

  // Whether the processor time of the next call is wanted.
  bool measures() const { return measured_ > 0; }
  // `took` is what passed, `used` what was measured, if it was.
  Time rest_after(Time took, std::optional<Time> used) {
    if (measured_ > 0) --measured_;
    if (took <= kLong) return Time(0);
    measured_ = kMeasured;
    return used && *used > kLong ? kRestFactor * *used : Time(0);
  }

 private:
  int measured_ = 0;
};

}  // namespace glovebox::egress
