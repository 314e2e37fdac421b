// The sandboxed shell that `glovebox mcp` offers to agents: the probe is what an agent types.
#pragma once

#include "attack/boxes.h"

#include <memory>

namespace glovebox::app {

Result<std::unique_ptr<Boxes>> make_mcp_boxes(const Setting& setting, Canaries& canaries);

}  // namespace glovebox::app
