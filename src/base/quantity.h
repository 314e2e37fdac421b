// Amounts as people write them: "256MiB", "30s", "1.5". Parsing is strict: the whole text must be
// an amount, nothing negative, nothing that overflows.
#pragma once

#include "base/result.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace glovebox {

// Bytes: digits and an optional unit: B, K, M, G, T (1024), KiB..TiB (1024), kB, MB, GB, TB (1000).
Result<std::uint64_t> parse_bytes(std::string_view text);
// "256 MiB", "1.5 GiB", "17 B"; for people.
std::string bytes_to_text(std::uint64_t bytes);

// Durations: digits with optional fraction and a unit: ms, s, m, h. A bare number is seconds.
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);
std::string duration_to_text(std::chrono::nanoseconds duration);

// A count: digits only.
Result<std::uint64_t> parse_count(std::string_view text);

// A positive decimal such as "1.5", in thousandths.
Result<std::uint64_t> parse_thousandths(std::string_view text);

}  // namespace glovebox
