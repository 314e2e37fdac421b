// Everything that one box did with the network, summed up for its report. Bounded: what a box does
// without end is counted, not listed.
#pragma once

#include "egress/rules/network_event.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace glovebox::egress {

class Ledger {
 public:
  static constexpr std::size_t kMostConnections = 1000;
  static constexpr std::size_t kMostDenials = 100;  // different ones

  struct DeniedTimes {
    Denied denied;
    std::uint64_t times = 0;
  };
  struct Totals {
    std::uint64_t connections = 0;
    std::uint64_t bytes_out = 0;
    std::uint64_t bytes_in = 0;
    std::uint64_t denials = 0;
  };

  void add(const Event& event);

  const std::vector<Closed>& connections() const { return connections_; }  // those that have ended
  const std::vector<Listening>& listeners() const { return listeners_; }
  const std::vector<DeniedTimes>& denials() const { return denials_; }
  const Totals& totals() const { return totals_; }

 private:
  void take(const Connected&) { ++totals_.connections; }
  void take(const Closed& closed);
  void take(const Listening& listening);
  void take(const Denied& denied);
  void take(const MustEnd&) {}  // the end of the box tells of it

  std::vector<Closed> connections_;
  std::vector<Listening> listeners_;
  std::vector<DeniedTimes> denials_;
  Totals totals_;
};

}  // namespace glovebox::egress
