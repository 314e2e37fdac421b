// Text as one word of a shell.
#pragma once

#include <string>
#include <string_view>

namespace glovebox::app {

// In single quotes, whatever it holds.
std::string shell_quoted(std::string_view text);

}  // namespace glovebox::app
