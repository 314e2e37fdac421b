// Which boxes need their Unix sockets decided by the broker, and by what it decides.
#include "plan/parts.h"

#include <algorithm>
#include <array>

namespace glovebox::plan {
namespace {

using authority::Effect;
using authority::Rule;

// The mount points of the box's private memory.
constexpr std::array<std::string_view, 3> kPrivateMounts{"/tmp", "/run", "/home"};

// The host's own sockets are not found through an overlay: its files have inodes of their own.
bool shows_host_sockets(const Region& region, const host::HostFacts& facts) {
  if (region.at.kind != host::PathKind::Directory || !region.rights.read) return false;
  if (region.upper != Upper::None) return false;
  return region.source || region.rights.write || !is_system(facts, region.at.path);
}

// Every box sees the system, and no program puts its sockets there; a rule about them is kept all
// the same.
bool denies_system_sockets(const SandboxSpec& spec, const Rule& rule,
                           const host::HostFacts& facts) {
  const auto* unix = std::get_if<authority::ConnectUnix>(&rule.capability);
  if (unix == nullptr || rule.effect != Effect::Deny) return false;
  const auto found = spec.paths.find(unix->path.text());
  return found != spec.paths.end() && found->second.kind == host::PathKind::Directory &&
         is_system(facts, unix->path.text()) &&
         spec.authority.effects_at(unix->path).read != Effect::Deny;
}

const Region* find_region(const std::vector<Region>& regions, std::string_view path) {
  const auto found =
      std::ranges::find_if(regions, [&](const Region& region) { return region.at.path == path; });
  return found == regions.end() ? nullptr : &*found;
}

// The deepest region that the path lies in. They are in the order of their paths.
const Region* find_nearest(const std::vector<Region>& regions, std::string_view path) {
  const Region* nearest = nullptr;
  for (const Region& region : regions) {
    if (host::is_within(path, region.at.path)) nearest = &region;
  }
  return nearest;
}

}  // namespace

bool needs_socket_guard(const SandboxSpec& spec, const std::vector<Rule>& rules,
                        const std::vector<Region>& regions, const host::HostFacts& facts) {
  if (spec.waived.contains("host-sockets")) return false;
  return std::ranges::any_of(
             regions, [&](const Region& region) { return shows_host_sockets(region, facts); }) ||
         std::ranges::any_of(
             rules, [&](const Rule& rule) { return denies_system_sockets(spec, rule, facts); });
}

void plan_socket_guard(const std::vector<Region>& regions, NetworkPlan& plan) {
  plan.unix_calls = UnixCalls::Guard;
  for (const std::string_view path : kPrivateMounts) {
    if (find_region(regions, path) == nullptr) plan.socket_places.emplace_back(path);
  }
  for (const Region& region : regions) {
    const bool is_own = region.upper != Upper::None;
    if (is_own || region.rights.connect) plan.socket_places.push_back(region.at.path);
    // A directory that is pinned is a mount of its own.
    for (const std::string& path : region.pinned) {
      const Region* around = find_nearest(regions, path);
      if (around != nullptr && around->rights.connect) plan.socket_places.push_back(path);
    }
    const bool is_tree = region.at.kind == host::PathKind::Directory;
    if (is_tree && region.source && region.source->path != region.at.path) {
      plan.moved.push_back({region.at.path, region.source->path});
    }
  }
}

}  // namespace glovebox::plan
