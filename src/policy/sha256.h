// SHA-256, for digests of policies.
#pragma once

#include <string>
#include <string_view>

namespace glovebox::policy {

// 64 lower-case hex digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace glovebox::policy
