#include "http/date.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <ctime>

namespace glovebox::serve {
namespace {

std::tm to_utc(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  (void)::gmtime_r(&time, &parts);  // fails only for years beyond 2^31
  return parts;
}

std::int64_t now_in(std::int64_t units_per_second) {
  std::timespec now{};
  (void)::clock_gettime(CLOCK_REALTIME, &now);  // cannot fail for this clock
  return now.tv_sec * units_per_second + now.tv_nsec / (1'000'000'000 / units_per_second);
}

}  // namespace

std::string http_date(std::int64_t unix_seconds) {
  constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::tm parts = to_utc(unix_seconds);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     kDays.at(static_cast<std::size_t>(parts.tm_wday)), parts.tm_mday,
                     kMonths.at(static_cast<std::size_t>(parts.tm_mon)), parts.tm_year + 1900,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string_view http_date() {
  thread_local std::int64_t second = -1;
  thread_local std::string text;
  std::timespec now{};
  (void)::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (now.tv_sec != second) {
    second = now.tv_sec;
    text = http_date(second);
  }
  return text;
}

std::string rfc3339(std::int64_t unix_nanoseconds) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::int64_t seconds = unix_nanoseconds / kSecond;
  std::int64_t rest = unix_nanoseconds % kSecond;
  if (rest < 0) {
    rest += kSecond;
    --seconds;
  }
  const std::tm parts = to_utc(seconds);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     rest);
}

std::int64_t unix_milliseconds() { return now_in(1'000); }
std::int64_t unix_nanoseconds() { return now_in(1'000'000'000); }

}  // namespace glovebox::serve
