// Base64, as images travel in replies.
#pragma once

#include <string>
#include <string_view>

namespace glovebox::mcp {

std::string base64(std::string_view bytes);

}  // namespace glovebox::mcp
