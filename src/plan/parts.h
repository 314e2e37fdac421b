// The parts of planning, each pure, joined by make_plan.
#pragma once

#include "base/result.h"
#include "host/facts.h"
#include "plan/launch_plan.h"
#include "plan/lower.h"
#include "plan/spec.h"

#include <string>
#include <vector>

namespace glovebox::plan {

// What the box will see as its file tree, and how it comes about.
struct View {
  std::vector<Step> base;
  std::vector<Step> box;
  std::vector<Tree> trees;
  std::string cwd;
};

Result<View> plan_view(const SandboxSpec& spec, const Lowered& lowered,
                       const host::HostFacts& facts);

// What of the network these rules of the request grant, and how the sockets in the regions are kept
// from the box; or nothing, when there is neither. Refused when it cannot be had with what else is
// asked for.
Result<std::optional<NetworkPlan>> plan_network(const SandboxSpec& spec,
                                                const std::vector<authority::Rule>& rules,
                                                const std::vector<Region>& regions,
                                                const host::HostFacts& facts);
// Whether the box sees Unix sockets of the host that it is not to connect to: it is shown a
// directory of the host that is neither an overlay nor the system's, or a rule denies the sockets
// of the system's.
bool needs_socket_guard(const SandboxSpec& spec, const std::vector<authority::Rule>& rules,
                        const std::vector<Region>& regions, const host::HostFacts& facts);
// Makes the broker decide on Unix sockets.
void plan_socket_guard(const std::vector<Region>& regions, NetworkPlan& plan);
bool is_loopback(const authority::ListenAddress& address);
// What enforces a rule about the network.
std::string network_rule_enforcement(const std::optional<NetworkPlan>& network,
                                     const authority::Rule& rule);

// Files that tell programs where names are looked up: their contents in the private tmpfs, and what
// of the system they cover.
struct NameFiles {
  struct File {
    std::string path;  // in the private tmpfs
    std::string text;
  };
  std::vector<File> files;
  std::vector<Step> covers;
};
NameFiles plan_name_files(const SandboxSpec& spec, const host::HostFacts& facts);

// Covers everything in /proc that no ordinary program needs.
Step plan_proc_covers(const host::HostFacts& facts);

// What counts against the caller's user is shared: a box gets one part of so many.
inline constexpr std::uint64_t kShare = 4;

// Adds the cgroup, the rlimits and what the supervisor watches. A limit that was asked for and
// cannot be enforced here is a refusal, unless waived by name.
Result<void> plan_limits(const SandboxSpec& spec, const Limits& limits,
                         const host::HostFacts& facts, LaunchPlan& plan);

// Adds Landlock, a second wall behind the mounts: the system may be read and executed, private
// directories written, and each region used as its rights say.
Result<void> plan_landlock(const SandboxSpec& spec, const host::HostFacts& facts,
                           const std::vector<Region>& regions, LaunchPlan& plan);

}  // namespace glovebox::plan
