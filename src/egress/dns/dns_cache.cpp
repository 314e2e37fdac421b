#include "egress/dns/dns_cache.h"

#include <algorithm>

namespace glovebox::egress {

void Pins::forget_oldest(Clock::time_point now) {
  std::erase_if(pins_, [now](const auto& entry) { return entry.second.pin.until <= now; });
  if (pins_.size() < kMost) return;
  pins_.erase(
      std::ranges::min_element(pins_, {}, [](const auto& entry) { return entry.second.serial; }));
}

void Pins::add(const std::string& name, authority::Family family,
               std::vector<authority::IpNetwork> addresses, std::uint32_t ttl_seconds,
               Clock::time_point now) {
  if (pins_.size() >= kMost) forget_oldest(now);
  const auto holds = std::max<Clock::duration>(std::chrono::seconds(ttl_seconds), kShortest);
  pins_[{name, family}] = Kept{{std::move(addresses), now + holds}, ++serial_};
}

const Pins::Pin* Pins::find(const std::string& name, authority::Family family,
                            Clock::time_point now) const {
  const auto found = pins_.find({name, family});
  if (found == pins_.end() || found->second.pin.until <= now) return nullptr;
  return &found->second.pin;
}

std::vector<std::string> Pins::names_of(const authority::IpNetwork& address,
                                        Clock::time_point now) const {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  for (const auto& [key, kept] : pins_) {
    if (kept.pin.until <= now) continue;
    if (std::ranges::find(kept.pin.addresses, address) == kept.pin.addresses.end()) continue;
    found.emplace_back(kept.serial, key.first);
  }
  std::ranges::sort(found, std::greater<>());
  std::vector<std::string> names;
  names.reserve(found.size());
  for (auto& [serial, name] : found) names.push_back(std::move(name));
  return names;
}

}  // namespace glovebox::egress
