// Names for sessions and runs that cannot be guessed.
#pragma once

#include "base/result.h"

#include <string>
#include <string_view>

namespace glovebox::session {

// A random UUID (version 4): "f81d4fae-7dec-41d0-a765-00a0c91e6bf6".
Result<std::string> make_uuid();
bool is_uuid(std::string_view text);

}  // namespace glovebox::session
