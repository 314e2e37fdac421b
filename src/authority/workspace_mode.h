// What becomes of what a box writes into a directory that it is handed as a whole.
//
// One type for every layer: policies name the most that is allowed, requests name what is asked
// for, plans say what is done.
#pragma once

#include "base/result.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace glovebox {

// Ordered: a greater value lets a box do more that stays.
enum class WorkspaceMode : std::uint8_t {
  Read,     // it is refused
  Discard,  // it lands in the box's private memory, and ends with the box
  Overlay,  // it lands in a layer; the original is untouched until a commit
  Write,    // it lands in the directory itself
};
inline constexpr std::array<std::string_view, 4> kWorkspaceModeNames{"ro", "discard", "overlay",
                                                                     "rw"};

std::string_view to_text(WorkspaceMode mode);
Result<WorkspaceMode> parse_workspace_mode(std::string_view text);

}  // namespace glovebox
