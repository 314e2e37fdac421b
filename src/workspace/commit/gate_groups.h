// Puts what is held into few questions, so that each of them is read.
//
// Nothing passes by this: every path is held as before, and is named in its question. What package
// managers and builds write is one question (a rule with `act: gather`); what is held only because
// its directory is new is told as that directory; what one ref brings is told by rule.
#pragma once

#include "workspace/commit/gate.h"

#include <functional>

namespace glovebox::workspace {

// Whether git ignores a path; everything, where there is no repository.
using IsIgnored = std::function<bool(const std::string& path)>;

// The rule that gathers what another rule holds, or nullptr.
const GateRule* find_gathering_rule(const GateRules& rules, const Held& held, const Change& change,
                                    const IsIgnored& is_ignored);

// `held` is in the order of the changes, and the questions come in the order of their first path.
// What a rule gathers has that rule's name in `gathered_by`.
std::vector<Held> group_held(const GateRules& rules, const std::vector<Held>& held,
                             const std::vector<Change>& changes);

}  // namespace glovebox::workspace
