#include "base/utf8.h"

namespace glovebox {
namespace {

unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Where the first byte is that is no UTF-8, from `at` on; the size when there is none.
std::size_t find_invalid(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const std::size_t length = byte_at(text, at) < 0x80 ? 1 : utf8_length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const unsigned char first = byte_at(text, 0);
  std::size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;  // no surrogates
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  }
  if (length == 0 || text.size() < length) return 0;
  if (byte_at(text, 1) < low || byte_at(text, 1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte_at(text, i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

std::string to_valid_utf8(std::string text) {
  std::size_t bad = find_invalid(text, 0);
  if (bad == text.size()) return text;
  std::string valid;
  std::size_t from = 0;
  while (bad < text.size()) {
    valid.append(text, from, bad - from);
    valid += kReplacement;
    from = bad + 1;
    bad = find_invalid(text, from);
  }
  valid.append(text, from);
  return valid;
}

}  // namespace glovebox
