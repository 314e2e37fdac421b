// Layers for the workspaces of a box, bounded as its disk budget says. What every face uses, so
// that a budget means the same for a run and for a session.
#pragma once

#include "plan/spec.h"
#include "workspace/layer/layer.h"
#include "workspace/layer/quota.h"

namespace glovebox::workspace {

// What the budget of a spec means for its layers here. Where less can be kept than the budget
// allows, the spec is told so. Without an overlay, or with the budget waived, a Directory.
Result<QuotaChoice> choose_for(const std::string& layer_root, plan::SandboxSpec& spec);

// The workspace is planned with that layer, and the frozen ones that it stands on.
Result<void> plan_layer(const Layer& layer, plan::Workspace& over);

// For a plan that is only looked at: stands for the layer that would be made.
void plan_some_layer(const QuotaChoice& quota, plan::Workspace& over);

}  // namespace glovebox::workspace
