// A walk over a tree by descriptors: links are never followed, parents come before children, names
// in order of their bytes.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace glovebox::guest {

// A descriptor is open for each level, so the depth has a bound.
inline constexpr std::uint64_t kMaxWalkDepth = 512;

struct WalkPoint {
  BorrowedFd dir;
  const std::string& name;  // in dir
  std::string path;         // from the root of the walk
  std::uint64_t depth;      // 1 for what is directly below the root
};

enum class Descend : std::uint8_t { No, Yes, Stop };
using Visit = std::function<Result<Descend>(const WalkPoint& point)>;

// Visits everything below `dir`. Stop ends the directory it was said in.
Result<void> walk(BorrowedFd dir, const std::string& below, std::uint64_t depth,
                  const Visit& visit);

// The names in a directory, in order, without the two dots.
Result<std::vector<std::string>> names_in(BorrowedFd dir);

}  // namespace glovebox::guest
