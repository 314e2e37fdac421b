// How well boxes that are begun ahead of need (launch/parked.h) serve those who ask.
#pragma once

#include <cstdint>

namespace glovebox::session {

// What parked boxes were good for, over all launchers.
struct PoolStats {
  std::uint64_t hits = 0;     // boxes that waited for their request
  std::uint64_t misses = 0;   // and requests that found none
  std::uint64_t refills = 0;  // boxes that were ever parked
  std::uint32_t parked = 0;   // now
};

}  // namespace glovebox::session
