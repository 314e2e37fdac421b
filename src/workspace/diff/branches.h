// What differs between two layers over one original: the branches of a fork, or any two.
//
// Neither is compared with the other's past: both are read as what they make of the original now,
// so a path that both changed in the same way is no difference. What they share is not read: a file
// that both have from one frozen layer is the same file.
#pragma once

#include "workspace/diff/change.h"
#include "workspace/layer/layer.h"

namespace glovebox::workspace {

// Everything that a layer shows: its trees, the topmost first, and the original last. Levels of the
// changes below mean these.
Result<Uppers> open_branch(const Layer& layer);

// From `from` to `to`, in tree order, without renames. Code::Invalid when they are about different
// directories.
Result<std::vector<Change>> diff_branches(const Layer& from, const Layer& to);

}  // namespace glovebox::workspace
