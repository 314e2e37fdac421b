#include "base/quantity.h"

#include <array>
#include <charconv>
#include <limits>

namespace glovebox {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t scale;
};

constexpr std::uint64_t kKi = 1024;
constexpr std::array<Unit, 16> kByteUnits{{{"", 1},
                                           {"B", 1},
                                           {"K", kKi},
                                           {"M", kKi* kKi},
                                           {"G", kKi* kKi* kKi},
                                           {"T", kKi* kKi* kKi* kKi},
                                           {"KiB", kKi},
                                           {"MiB", kKi* kKi},
                                           {"GiB", kKi* kKi* kKi},
                                           {"TiB", kKi* kKi* kKi* kKi},
                                           {"kB", 1000},
                                           {"KB", 1000},
                                           {"MB", 1000'000},
                                           {"GB", 1000'000'000},
                                           {"TB", 1000'000'000'000},
                                           {"k", kKi}}};

constexpr std::array<Unit, 6> kTimeUnits{{{"", 1'000'000'000},
                                          {"us", 1'000},
                                          {"ms", 1'000'000},
                                          {"s", 1'000'000'000},
                                          {"m", 60'000'000'000},
                                          {"h", 3'600'000'000'000}}};

// A decimal with up to nine digits of fraction, times `scale`, exactly.
Result<std::uint64_t> scaled(std::string_view number, std::uint64_t scale) {
  const std::size_t dot = number.find('.');
  const std::string_view whole_text = number.substr(0, dot);
  const std::string_view fraction_text =
      dot == std::string_view::npos ? std::string_view() : number.substr(dot + 1);
  if (whole_text.empty() || (dot != std::string_view::npos && fraction_text.empty()) ||
      fraction_text.size() > 9) {
    return fail(Code::Invalid, "not a number");
  }
  TRY(const std::uint64_t whole, parse_count(whole_text));
  std::uint64_t total = 0;
  if (__builtin_mul_overflow(whole, scale, &total)) return fail(Code::Invalid, "too large");
  if (fraction_text.empty()) return total;
  TRY(const std::uint64_t fraction, parse_count(fraction_text));
  unsigned __int128 part = static_cast<unsigned __int128>(fraction) * scale;
  for (std::size_t i = 0; i < fraction_text.size(); ++i) part /= 10;
  if (__builtin_add_overflow(total, static_cast<std::uint64_t>(part), &total)) {
    return fail(Code::Invalid, "too large");
  }
  return total;
}

template <std::size_t N>
Result<std::uint64_t> parse_with_units(std::string_view text, const std::array<Unit, N>& units,
                                       std::string_view expected) {
  const std::size_t end = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, end);
  const std::string_view unit =
      end == std::string_view::npos ? std::string_view() : text.substr(end);
  for (const Unit& known : units) {
    if (known.name != unit) continue;
    auto value = scaled(number, known.scale);
    if (!value) break;
    return value;
  }
  return fail(Code::Invalid, "'{}' is not {}", text, expected);
}

}  // namespace

Result<std::uint64_t> parse_count(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || text.empty()) {
    return fail(Code::Invalid, "'{}' is not a whole number", text);
  }
  return value;
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  return parse_with_units(text, kByteUnits, "an amount of bytes (such as 256MiB)");
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  TRY(const std::uint64_t count,
      parse_with_units(text, kTimeUnits, "a duration (such as 30s or 500ms)"));
  if (count > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return fail(Code::Invalid, "'{}' is too long", text);
  }
  return std::chrono::nanoseconds(static_cast<std::int64_t>(count));
}

Result<std::uint64_t> parse_thousandths(std::string_view text) {
  auto value = scaled(text, 1000);
  if (!value || *value == 0) {
    return fail(Code::Invalid, "'{}' is not a positive number (such as 1.5)", text);
  }
  return value;
}

std::string bytes_to_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t index = 0;
  std::uint64_t scale = 1;
  while (index + 1 < kNames.size() && bytes / scale >= kKi) {
    scale *= kKi;
    ++index;
  }
  if (bytes % scale == 0) return fmt::format("{} {}", bytes / scale, kNames.at(index));
  return fmt::format("{:.1f} {}", static_cast<double>(bytes) / static_cast<double>(scale),
                     kNames.at(index));
}

std::string duration_to_text(std::chrono::nanoseconds duration) {
  const auto ns = duration.count();
  if (ns % 1'000'000'000 == 0) return fmt::format("{} s", ns / 1'000'000'000);
  if (ns >= 1'000'000'000) return fmt::format("{:.3f} s", static_cast<double>(ns) / 1e9);
  if (ns >= 1'000'000) return fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
  return fmt::format("{:.1f} us", static_cast<double>(ns) / 1e3);
}

}  // namespace glovebox
