#include "workspace/tree/printable.h"

#include "base/utf8.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace glovebox::workspace {
namespace {

enum class Backslash { Kept, Doubled };
enum class Tab { Kept, Escaped };

// The length of the UTF-8 sequence that starts here, 0 when there is none.
std::size_t sequence_length(std::string_view bytes) {
  return static_cast<unsigned char>(bytes[0]) < 0x80 ? 1 : utf8_length(bytes);
}

std::uint32_t code_point(std::string_view sequence) {
  auto point = static_cast<std::uint32_t>(static_cast<unsigned char>(sequence[0]));
  if (sequence.size() == 1) return point;
  point &= 0xffU >> (sequence.size() + 1);
  for (const char byte : sequence.substr(1)) {
    point = point << 6U | (static_cast<unsigned char>(byte) & 0x3fU);
  }
  return point;
}

// Controls, and what reorders, hides or joins text: bidirectional marks, zero-width characters,
// line and paragraph separators, the byte order mark, tag characters.
bool is_deceptive(std::uint32_t point) {
  if (point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0xad) return true;
  if (point >= 0x200b && point <= 0x200f) return true;
  if (point >= 0x2028 && point <= 0x202e) return true;
  if (point >= 0x2060 && point <= 0x206f) return true;
  return point == 0x61c || point == 0xfeff || (point >= 0xfff9 && point <= 0xfffb) ||
         (point >= 0xe0000 && point <= 0xe007f);
}

void append_hex(std::string& out, std::string_view bytes) {
  for (const char byte : bytes) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(byte));
  }
}

std::string escaped(std::string_view bytes, Backslash backslash, Tab tab) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = sequence_length(bytes);
    const std::string_view sequence = bytes.substr(0, length == 0 ? 1 : length);
    bytes.remove_prefix(sequence.size());
    if (sequence == "\\" && backslash == Backslash::Doubled) {
      out += "\\\\";
    } else if (sequence == "\t" && tab == Tab::Kept) {
      out += '\t';
    } else if (length == 0 || is_deceptive(code_point(sequence))) {
      append_hex(out, sequence);
    } else {
      out += sequence;
    }
  }
  return out;
}

int hex_digit(char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return -1;
}

}  // namespace

std::string printable(std::string_view bytes) {
  return escaped(bytes, Backslash::Doubled, Tab::Escaped);
}

std::string printable_line(std::string_view bytes) {
  return escaped(bytes, Backslash::Kept, Tab::Kept);
}

std::string quoted_path(std::string_view path) {
  const bool is_plain =
      path.find_first_of("\"\\ ") == std::string_view::npos && printable(path) == path;
  if (is_plain) return std::string(path);
  std::string out = "\"";
  for (const char byte : path) {
    const auto value = static_cast<unsigned char>(byte);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += byte;
    } else if (byte == '\n') {
      out += "\\n";
    } else if (byte == '\t') {
      out += "\\t";
    } else if (value < 0x20 || value >= 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\{:03o}", value);
    } else {
      out += byte;
    }
  }
  return out + '"';
}

std::string encode_bytes(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    if (value <= 0x20 || value >= 0x7f || byte == '%') {
      fmt::format_to(std::back_inserter(out), "%{:02X}", value);
    } else {
      out += byte;
    }
  }
  return out;
}

Result<std::string> decode_bytes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at];
      continue;
    }
    if (at + 2 >= text.size() || hex_digit(text[at + 1]) < 0 || hex_digit(text[at + 2]) < 0) {
      return fail(Code::Invalid, "a broken %XX escape in '{}'", text);
    }
    out += static_cast<char>(hex_digit(text[at + 1]) * 16 + hex_digit(text[at + 2]));
    at += 2;
  }
  return out;
}

std::string to_hex(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    fmt::format_to(std::back_inserter(out), "{:02x}", static_cast<unsigned char>(byte));
  }
  return out;
}

}  // namespace glovebox::workspace
