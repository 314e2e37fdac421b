// Bytes from a box, made fit to be shown or written down.
//
// Names and contents come from a box and may hold anything but NUL (names) or anything at all
// (contents): newlines that forge a line of a listing, escape sequences that drive a terminal,
// characters that reverse the direction of what follows. Nothing of a box reaches a terminal but
// through printable().
#pragma once

#include "base/result.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace glovebox::workspace {

// Printable text kept; control characters, C1, characters that direct or hide text, and bytes that
// are no UTF-8 as \xNN. A backslash is doubled, so that an escape cannot be imitated.
std::string printable(std::string_view bytes);
// One line of a file: as printable(), but tabs and backslashes are kept, for they are what code
// has.
std::string printable_line(std::string_view bytes);

// A path as diff headers have it: plain, or in double quotes with C escapes when it holds control
// characters, quotes, backslashes or bytes that are no UTF-8; also when it holds a space, where
// patch(1) would end it.
std::string quoted_path(std::string_view path);

// Any bytes as ASCII and back, for records: '%' and everything outside 0x21..0x7e as %XX.
std::string encode_bytes(std::string_view bytes);
Result<std::string> decode_bytes(std::string_view text);
std::string to_hex(std::string_view bytes);

}  // namespace glovebox::workspace
