// The last word of a launch, as a result.
#pragma once

#include "base/result.h"
#include "launch/child/init_message.h"
#include "plan/launch_plan.h"

namespace glovebox::session {

// The box is built; or the error names the step that failed.
Result<void> check_started(const launch::Message& message, const plan::LaunchPlan& plan);

}  // namespace glovebox::session
