// Bytes that may be anything, made UTF-8: what JSON, logs and event streams need.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace glovebox {

// U+FFFD, what stands for a byte that is no UTF-8.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The length of the character of two bytes or more at the front; 0 when there is none. `text` is
// not empty.
std::size_t utf8_length(std::string_view text);

// The text with every byte that is no UTF-8 replaced. Done to serialized JSON it leaves JSON: what
// JSON is made of is ASCII, and that is never touched.
std::string to_valid_utf8(std::string text);

}  // namespace glovebox
