#include "base/plain_text.h"

#include "base/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace glovebox {
namespace {

constexpr std::size_t kLongestQuote = 96;

bool is_control(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  return value < 0x20 || value == 0x7f;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const bool is_ascii = static_cast<unsigned char>(text.front()) < 0x80;
    const std::size_t length = is_ascii ? 1 : utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
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

}  // namespace glovebox
