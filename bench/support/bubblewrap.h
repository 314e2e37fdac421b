// bubblewrap, as people call it for a box like ours: all namespaces, a read-only system, a private
// /proc, /dev, /tmp, /run and /home. It has no cgroups and no Landlock; ours has both.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <string>
#include <vector>

namespace glovebox::bench {

inline constexpr const char* kBubblewrap = "/usr/bin/bwrap";

// A deny-list filter as people give it to bubblewrap, in a memfd that it inherits.
Result<UniqueFd> bubblewrap_filter();

// The whole command line. Seek a filter to its start before each use.
inline constexpr int kNoFilter = -1;
std::vector<std::string> bubblewrap(int filter, const std::vector<std::string>& command);

// The tiny static program, put where every box sees it.
Result<std::string> install_tiny();

}  // namespace glovebox::bench
