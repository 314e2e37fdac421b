// How far a dotted pattern reaches: shared by domain names and module names.
#pragma once

#include <cstdint>

namespace glovebox::authority {

// One name, or every name strictly below it at any depth (and not the name itself).
enum class Reach : std::uint8_t { Exact, Below };

}  // namespace glovebox::authority
