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

// Adds the cgroup, the rlimits and what the supervisor watches. A limit that was asked for and
// cannot be enforced here is a refusal, unless waived by name.
Result<void> plan_limits(const SandboxSpec& spec, const Limits& limits,
                         const host::HostFacts& facts, LaunchPlan& plan);

// Adds Landlock, a second wall behind the mounts: the system may be read and executed, private
// directories written, and each region used as its rights say.
Result<void> plan_landlock(const SandboxSpec& spec, const host::HostFacts& facts,
                           const std::vector<Region>& regions, LaunchPlan& plan);

}  // namespace glovebox::plan
