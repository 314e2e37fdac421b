#include "authority/workspace_mode.h"

#include <algorithm>

namespace glovebox {

std::string_view to_text(WorkspaceMode mode) {
  return kWorkspaceModeNames.at(static_cast<std::size_t>(mode));
}

Result<WorkspaceMode> parse_workspace_mode(std::string_view text) {
  const auto found = std::ranges::find(kWorkspaceModeNames, text);
  if (found == kWorkspaceModeNames.end()) {
    return fail(Code::Invalid, "'{}' is not a workspace mode: ro, discard, overlay or rw", text);
  }
  return static_cast<WorkspaceMode>(found - kWorkspaceModeNames.begin());
}

}  // namespace glovebox
