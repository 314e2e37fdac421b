// Times as wires want them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace glovebox::serve {

// "Mon, 16 Nov 2026 02:31:53 GMT"; made once a second. One thread.
std::string_view http_date();
std::string http_date(std::int64_t unix_seconds);

// "2026-11-16T02:31:53.123456789Z".
std::string rfc3339(std::int64_t unix_nanoseconds);

std::int64_t unix_milliseconds();
std::int64_t unix_nanoseconds();

}  // namespace glovebox::serve
