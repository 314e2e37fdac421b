// The report of a run as JSON: what was enforced and by what, how it ended, what it used.
#pragma once

#include "egress/rules/ledger.h"
#include "launch/supervise.h"
#include "plan/launch_plan.h"

#include <string>

namespace glovebox::app {

// `network` is null for a box without one.
std::string report_json(const plan::LaunchPlan& plan, const launch::ExitReport& report,
                        const egress::Ledger* network);

// For a run that was refused before there was a plan.
std::string refusal_json(const std::vector<std::string>& command, const std::string& problem);

}  // namespace glovebox::app
