// Finds what a box changed, by walking the upper directory, and the frozen ones that it stands on,
// beside the original.
//
// The cost grows with the change: only what is in the upper is visited, and of the original only
// the same names, plus trees that the box deleted. Both trees may change during the walk; then the
// result is some mixture, never a read outside either of them and never a wait. A commit copies and
// judges what it takes over once more.
#pragma once

#include "workspace/diff/change.h"
#include "workspace/layer/layer.h"
#include "workspace/layer/upper_stack.h"

namespace glovebox::workspace {

inline constexpr std::size_t kMostChanges = 2'000'000;
// Two files of the same size are compared byte by byte up to here; beyond, they count as different.
inline constexpr std::uint64_t kMostCompared = std::uint64_t{4} << 30;

enum class Names : std::uint8_t { Same, MayDiffer };

struct SameDirectory {
  std::string path{};
  Names names = Names::MayDiffer;
};

struct Comparison {
  std::vector<Change> changes{};  // in tree order, without renames
  // Directories of the original on the way to changes that were found to be the same as at the
  // session's start, and whether the same names are in them.
  std::vector<SameDirectory> same_directories{};
};

Result<Comparison> compare(const Layer& layer, const Uppers& uppers, BorrowedFd original);

// Whether two regular files of `size` bytes hold the same.
Result<bool> same_bytes(BorrowedFd a, BorrowedFd b, std::uint64_t size);

}  // namespace glovebox::workspace
