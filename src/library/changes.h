// The list of changes in a diff's JSON (workspace/diff/diff.h).
#pragma once

#include "glovebox/glovebox.h"

#include <string_view>
#include <vector>

namespace glovebox::library {

Result<std::vector<Change>> read_changes(std::string_view json);

}  // namespace glovebox::library
