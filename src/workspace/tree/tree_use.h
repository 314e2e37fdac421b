// How much room a tree takes that a box has made, and is making.
//
// The box chooses depth, width and names, and would like the counting process to run out of stack,
// memory or descriptors. So nothing here calls itself, a few descriptors are open whatever the
// depth, and a tree that cannot be counted within these bounds is told apart: no program needs such
// a tree.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace glovebox::workspace {

// Names of directories that are still to be visited, in bytes with what each costs besides.
inline constexpr std::size_t kMostPendingNames = std::size_t{64} << 20;

struct TreeUse {
  std::uint64_t bytes = 0;  // on the disk; what is hard-linked counts by each name
  // Deeper than kDeepestTree, or wider than is held in memory.
  bool is_boundless = false;
  // With a directory that we may not look into: what is in it is not known.
  bool has_shut = false;
  friend bool operator==(const TreeUse&, const TreeUse&) = default;
};

// What is removed meanwhile is left out, and so are files without a name that a process has open.
// The directory at `shut`, from the top, may be shut: it is no business of the box.
Result<TreeUse> measure_tree(BorrowedFd dir, std::string_view shut = {});

}  // namespace glovebox::workspace
