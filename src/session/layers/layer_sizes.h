// How large layers are, by looking at them. Blocks.
#pragma once

#include "session/store/layer_usage.h"
#include "workspace/layer/layer.h"
#include "workspace/tree/tree_use.h"

#include <cstdint>
#include <map>
#include <string>

namespace glovebox::session {

// By the layer's id, with those that are being made or removed, by what they are called meanwhile.
struct LayerSizes {
  std::map<std::string, workspace::TreeUse> layers;
  std::uint64_t on_disk = 0;  // all that is on their filesystem, of any origin
};

// What cannot be measured is left out.
Result<LayerSizes> measure_layers(const workspace::LayerRoot& root, LayerUsage& known);

// The most that each may hold. A directory that is shut cannot be looked into: what was in the
// layer before is in it still, and what came to the disk since may be. `last` are the looks that
// were possible.
std::map<std::string, std::uint64_t> count_bytes(const LayerSizes& sizes,
                                                 std::map<std::string, LayerLook>& last);

}  // namespace glovebox::session
