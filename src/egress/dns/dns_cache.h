// What was looked up for one box, for as long as it holds.
//
// A connection by name goes to an address that this resolver gave for that name. While an answer
// holds, the same answer is given again, so a name cannot be moved elsewhere between the look-up
// and the connection. An answer holds for its time to live, at least kShortest: programs connect a
// moment after they have asked.
#pragma once

#include "authority/network.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace glovebox::egress {

class Pins {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kShortest{60};
  static constexpr std::size_t kMost = 1024;  // answers kept; the oldest goes first

  struct Pin {
    std::vector<authority::IpNetwork> addresses;
    Clock::time_point until;
  };

  void add(const std::string& name, authority::Family family,
           std::vector<authority::IpNetwork> addresses, std::uint32_t ttl_seconds,
           Clock::time_point now);

  // The answer for this name, if one holds.
  const Pin* find(const std::string& name, authority::Family family, Clock::time_point now) const;
  // The names that were answered with this address and still hold, the latest first.
  std::vector<std::string> names_of(const authority::IpNetwork& address,
                                    Clock::time_point now) const;

  std::size_t size() const { return pins_.size(); }

 private:
  using Key = std::pair<std::string, authority::Family>;
  struct Kept {
    Pin pin;
    std::uint64_t serial = 0;
  };
  void forget_oldest(Clock::time_point now);

  std::map<Key, Kept> pins_;
  std::uint64_t serial_ = 0;
};

}  // namespace glovebox::egress
