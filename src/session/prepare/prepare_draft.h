// What the parts of preparing pass on to each other. For prepare*.cpp alone.
#pragma once

#include "plan/spec.h"
#include "policy/policy.h"
#include "session/prepare/prepare.h"

#include <optional>
#include <vector>

namespace glovebox::session {

// A request on its way to a plan.
struct Preparer::Draft {
  BoxRequest asked;                  // becomes the effective one
  std::optional<KnownPlaces> known;  // of a request that was prepared before
  plan::SandboxSpec spec;
  std::vector<WorkspaceInfo> workspaces;
  std::vector<std::size_t> missing;          // workspaces whose directory is to be made
  std::optional<WorkspaceMode> policy_mode;  // the most it allows, and what it means by default
  std::optional<PolicyOrigin> origin;
  std::shared_ptr<const policy::PolicySet> policies;
  std::optional<PythonPlan> python;
};

}  // namespace glovebox::session
