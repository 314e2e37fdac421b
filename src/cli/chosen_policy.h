// The policy that --policy names, as far as a request needs it.
#pragma once

#include "base/result.h"
#include "cli/run_options.h"
#include "host/resolve_authority.h"
#include "plan/spec.h"

namespace glovebox::app {

// Loads the policy that `options` name, if any, and fills it into the spec: its authority (patterns
// replaced by what they match now), backend, waivers and processors, its name and digest. A word of
// the command line that asks for more than the policy's settings allow is refused.
Result<void> apply_policy(const RunOptions& options, plan::SandboxSpec& spec);

}  // namespace glovebox::app
