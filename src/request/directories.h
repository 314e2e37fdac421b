// Directories of the host that a session needs.
#pragma once

#include "base/result.h"

#include <string>

namespace glovebox::session {

// Makes a directory and the missing ones above it, 0755 and the caller's own. `path` is absolute
// and has no links in the part that exists. A link that is put in its way meanwhile is refused,
// not followed.
Result<void> make_directories_for(const std::string& path);

}  // namespace glovebox::session
