// Percent-encoding and query strings.
#pragma once

#include "http/message.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::serve {

enum class Plus : std::uint8_t { IsSpace, IsItself };

// Nothing for a broken escape. A NUL byte is refused too: no path or name has one.
std::optional<std::string> percent_decode(std::string_view text, Plus plus);
// Everything but letters, digits and "-._~" becomes %XX.
std::string percent_encode(std::string_view text);

// "a=1&b=%20&a=2"; nothing for a broken escape or more than kMaxQueryFields fields.
inline constexpr std::size_t kMaxQueryFields = 1'000;
std::optional<std::vector<Field>> parse_query(std::string_view text);

}  // namespace glovebox::serve
