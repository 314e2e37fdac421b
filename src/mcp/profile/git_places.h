// Where git keeps the hooks and the configuration of a working tree when that is not in `.git`.
#pragma once

#include "base/result.h"
#include "mcp/profile/host_view.h"

#include <string>
#include <vector>

namespace glovebox::mcp {

// The directories that `dot_git` leads to, as git follows it: the one that a `.git` file names
// ("gitdir: X": worktrees, submodules, a bare repository beside its trees), and the one that its
// `commondir` names, which holds the hooks and the configuration of all worktrees. They may be
// missing, or pass links. None for a plain repository. Refused: a file that is longer than any
// path, since git would not follow it.
Result<std::vector<std::string>> find_git_places(const std::string& dot_git, const HostView& host);

}  // namespace glovebox::mcp
