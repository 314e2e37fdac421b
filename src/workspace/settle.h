// From memory to disk: what a box wrote into a layer that lay in memory, as the layer's own
// directory, once the box is gone.
//
// The copy reads the same to everybody who looks at an upper: marks of overlayfs, whiteouts and
// attributes come along. Hard links stay links and holes stay holes, so it takes no more room than
// the memory did: a box cannot make it grow.
#pragma once

#include "workspace/layer.h"

namespace glovebox::workspace {

// Afterwards the layer's upper is a directory like any other, and `memory` is not needed any more.
// A layer that nothing was handed out for has an empty one: `memory` is then nothing. When it fails
// the layer still lies in memory, and nothing of the copy is left.
Result<void> settle(Layer& layer, std::optional<BorrowedFd> memory);

}  // namespace glovebox::workspace
