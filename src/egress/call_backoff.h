// How long a box has to wait after a call that kept the broker busy.
//
// What a call takes is the box's choice to some degree (how many descriptors there are to look
// through, how soon a thread of its own takes one that is handed in), so one that took long is
// followed by a rest: all other boxes together have the larger part of the time. Every call is
// measured, because a box that knew which are not would make its long ones then.
//
// Time that passed is not time that was used, on a host where others run. So what was used counts
// from one millisecond on, and more than once; what merely passed counts once, and only when that
// was long.
#pragma once

#include <algorithm>
#include <chrono>

namespace glovebox::egress {

using CallTime = std::chrono::nanoseconds;

inline constexpr std::chrono::milliseconds kLongUse{1};
inline constexpr int kRestFactor = 3;
inline constexpr std::chrono::milliseconds kLongWait{10};

// `passed` on the clock, `used` of a processor.
constexpr CallTime rest_after(CallTime passed, CallTime used) {
  const CallTime for_use = used > kLongUse ? kRestFactor * used : CallTime(0);
  const CallTime for_wait = passed > kLongWait ? passed : CallTime(0);
  return std::max(for_use, for_wait);
}

}  // namespace glovebox::egress
