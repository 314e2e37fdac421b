// What text may be made of before it becomes part of a grant, and how foreign text is shown.
//
// Grants are written as JSON, printed on terminals and compared byte by byte. Text that is not
// UTF-8 would not survive the first, and control characters would forge the second.
#pragma once

#include <string>
#include <string_view>

namespace glovebox {

// Well-formed UTF-8: no overlong forms, no surrogates, nothing past U+10FFFF.
bool is_utf8(std::string_view text);

// UTF-8 without control characters (NUL to US, and DEL).
bool is_plain_text(std::string_view text);

// The same text on one line: control characters as \xNN, all else kept.
std::string one_line(std::string_view text);

// Foreign text for a message: in quotes, printable ASCII kept, every other byte as \xNN, and cut
// after 96 bytes. A message built with it stays one line whatever an attacker put in.
std::string quoted(std::string_view text);

}  // namespace glovebox
