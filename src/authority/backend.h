// The technique a box is made with. The caller names it; it is never changed silently.
#pragma once

#include "base/result.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace glovebox {

enum class Backend : std::uint8_t { Process, Cell, Microvm };
inline constexpr std::array<std::string_view, 3> kBackendNames{"process", "cell", "microvm"};

std::string_view to_text(Backend backend);
Result<Backend> parse_backend(std::string_view text);

}  // namespace glovebox
