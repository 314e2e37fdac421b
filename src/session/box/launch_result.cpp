#include "session/box/launch_result.h"

#include "launch/launcher.h"

#include <vector>

namespace glovebox::session {

Result<void> check_started(const launch::Message& message, const plan::LaunchPlan& plan) {
  if (message.kind == launch::MessageKind::Started) return {};
  std::vector<plan::Step> steps = plan.early;
  steps.insert(steps.end(), plan.base.begin(), plan.base.end());
  steps.insert(steps.end(), plan.box.begin(), plan.box.end());
  if (message.kind == launch::MessageKind::StepFailed && message.step < steps.size()) {
    return tl::unexpected(launch::step_error(steps[message.step], message.os_errno));
  }
  return fail(Code::Os, "the box could not be built: {}", errno_text(message.os_errno));
}

}  // namespace glovebox::session
