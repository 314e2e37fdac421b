#include "egress/rules/ledger.h"

#include <algorithm>

namespace glovebox::egress {

void Ledger::add(const Event& event) {
  std::visit([this](const auto& each) { take(each); }, event);
}

void Ledger::take(const Closed& closed) {
  totals_.bytes_out += closed.bytes_out;
  totals_.bytes_in += closed.bytes_in;
  if (connections_.size() < kMostConnections) connections_.push_back(closed);
}

void Ledger::take(const Listening& listening) {
  const bool known = std::ranges::find(listeners_, listening) != listeners_.end();
  if (!known && listeners_.size() < kMostConnections) listeners_.push_back(listening);
}

void Ledger::take(const Denied& denied) {
  ++totals_.denials;
  const auto known = std::ranges::find(denials_, denied, &DeniedTimes::denied);
  if (known != denials_.end()) {
    ++known->times;
  } else if (denials_.size() < kMostDenials) {
    denials_.push_back({denied, 1});
  }
}

}  // namespace glovebox::egress
