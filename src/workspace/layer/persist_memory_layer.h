// From memory to disk: what a box wrote into a layer that lay in memory, as the layer's own
// directory, once the box is gone.
//
// The copy reads the same to everybody who looks at an upper: marks of overlayfs, whiteouts and
// attributes come along. Hard links stay links and holes stay holes, so it takes no more room than
// the memory did: a box cannot make it grow.
#pragma once

#include "workspace/layer/layer.h"

namespace glovebox::workspace {

// Afterwards the layer's upper is a directory like any other, and `memory` is not needed any more.
// A layer that nothing was handed out for has an empty one: `memory` is then nothing. When it fails
// the layer still lies in memory, and nothing of the copy is left.
Result<void> settle(Layer& layer, std::optional<BorrowedFd> memory);

// What was left behind.
struct Unsettled {
  std::size_t names = 0;  // each with everything below it
  std::string first;      // and why, for people
};
// The same for a layer whose memory is to be free again: what no disk can take, because it is too
// deep or too large, is left out and counted. It fails when the disk is at fault, and then the
// layer still lies in memory.
Result<Unsettled> settle_what_fits(Layer& layer, BorrowedFd memory);

}  // namespace glovebox::workspace
