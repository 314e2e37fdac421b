#include "authority/plain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace glovebox::authority {
namespace {

constexpr std::size_t kLongestQuote = 96;

// What a first byte announces: how many bytes follow, its own bits, and the smallest code point
// that needs this length. A smaller one is an overlong form.
struct Lead {
  int following;
  std::uint32_t bits;
  std::uint32_t smallest;
};

bool find_lead(unsigned char byte, Lead& lead) {
  if (byte < 0x80) {
    lead = {0, byte, 0};
  } else if (byte >= 0xc2 && byte < 0xe0) {
    lead = {1, byte & 0x1fU, 0x80};
  } else if (byte >= 0xe0 && byte < 0xf0) {
    lead = {2, byte & 0x0fU, 0x800};
  } else if (byte >= 0xf0 && byte < 0xf5) {
    lead = {3, byte & 0x07U, 0x10000};
  } else {
    return false;
  }
  return true;
}

bool is_control(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  return value < 0x20 || value == 0x7f;
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    Lead lead{};
    if (!find_lead(static_cast<unsigned char>(text[at]), lead)) return false;
    std::uint32_t point = lead.bits;
    for (int i = 0; i < lead.following; ++i) {
      if (++at == text.size()) return false;
      const auto byte = static_cast<unsigned char>(text[at]);
      if ((byte & 0xc0U) != 0x80) return false;
      point = point << 6U | (byte & 0x3fU);
    }
    const bool is_surrogate = point >= 0xd800 && point < 0xe000;
    if (point < lead.smallest || is_surrogate || point > 0x10ffff) return false;
  }
  return true;
}

bool is_plain_text(std::string_view text) {
  return is_utf8(text) && std::none_of(text.begin(), text.end(), is_control);
}

std::string one_line(std::string_view text) {
  std::string out;
  for (const char byte : text) {
    if (is_control(byte)) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(byte));
    } else {
      out += byte;
    }
  }
  return out;
}

std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char byte : text.substr(0, kLongestQuote)) {
    const auto value = static_cast<unsigned char>(byte);
    if (is_control(byte) || value >= 0x80 || byte == '\\' || byte == '\'') {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", value);
    } else {
      out += byte;
    }
  }
  out += text.size() > kLongestQuote ? "...'" : "'";
  return out;
}

}  // namespace glovebox::authority
