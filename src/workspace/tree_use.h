// How much room a tree takes that a box has made, and is making.
//
// The box chooses depth, width and names, and would like whoever counts to run out of stack, memory
// or descriptors. So nothing here calls itself, a few descriptors are open whatever the depth, and
// a tree that cannot be counted within these bounds is told apart: it is no tree that anybody
// needs.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <cstddef>
#include <cstdint>

namespace glovebox::workspace {

// Names of directories that are still to be visited, in bytes with what each costs besides.
inline constexpr std::size_t kMostPendingNames = std::size_t{64} << 20;

struct TreeUse {
  std::uint64_t bytes = 0;    // on the disk; what is hard-linked counts by each name
  bool is_boundless = false;  // deeper than kDeepestTree, or wider than is held in memory
  friend bool operator==(const TreeUse&, const TreeUse&) = default;
};

// What is removed meanwhile, or what the box has shut itself out of, is left out.
Result<TreeUse> measure_tree(BorrowedFd dir);

}  // namespace glovebox::workspace
