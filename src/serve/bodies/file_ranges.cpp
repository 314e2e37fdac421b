#include "serve/bodies/file_ranges.h"

#include "http/url.h"

#include <algorithm>
#include <charconv>

namespace glovebox::serve {
namespace {

std::string_view trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Asked {
  bool well_formed = false;
  std::optional<ByteRange> range;  // nothing: outside of the file
};

Asked parse_one(std::string_view text, std::uint64_t size) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return {};
  const std::string_view first = trim(text.substr(0, dash));
  const std::string_view last = trim(text.substr(dash + 1));
  if (first.empty()) {
    const auto count = number(last);
    if (!count) return {};
    if (*count == 0 || size == 0) return {true, std::nullopt};
    return {true, ByteRange{size - std::min(*count, size), size - 1}};
  }
  const auto from = number(first);
  if (!from) return {};
  std::uint64_t to = size == 0 ? 0 : size - 1;
  if (!last.empty()) {
    const auto end = number(last);
    if (!end || *end < *from) return {};
    to = std::min(to, *end);
  }
  if (*from >= size) return {true, std::nullopt};
  return {true, ByteRange{*from, to}};
}

}  // namespace

Result<std::optional<ByteRange>, ApiError> parse_range(std::string_view header,
                                                       std::uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  const auto bad = [&] {
    ApiError error{.status = 416,
                   .code = "UNKNOWN",
                   .message = fmt::format("'{}' is no range of bytes", header),
                   .more = {},
                   .headers = {{"Content-Range", fmt::format("bytes */{}", size)}}};
    return tl::unexpected(std::move(error));
  };
  if (!header.starts_with(kUnit)) return bad();
  std::string_view rest = header.substr(kUnit.size());
  std::optional<ByteRange> found;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view part = trim(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (part.empty()) continue;
    const Asked asked = parse_one(part, size);
    if (!asked.well_formed) return bad();
    if (!found) found = asked.range;
  }
  return found;
}

void LineCutter::take(std::string_view text, std::string& out) {
  if (line_ < next_wanted_) return;
  if (!began_) {
    if (!first_) out += '\n';
    first_ = false;
    began_ = true;
  }
  if (held_return_ && !text.empty()) {
    out += '\r';
    held_return_ = false;
  }
  if (text.ends_with('\r')) {
    held_return_ = true;
    text.remove_suffix(1);
  }
  out += text;
}

bool LineCutter::add(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    if (left_ && *left_ == 0) return false;
    const std::size_t end = bytes.find('\n');
    take(bytes.substr(0, end), out);
    if (end == std::string_view::npos) return true;
    bytes.remove_prefix(end + 1);
    if (line_ >= next_wanted_ && left_) --*left_;
    ++line_;
    began_ = false;
    held_return_ = false;
  }
  return !left_ || *left_ > 0;
}

std::string content_disposition(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::string_view base = slash == std::string_view::npos ? name : name.substr(slash + 1);
  const bool plain = std::ranges::all_of(
      base, [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  if (plain) return fmt::format("attachment; filename=\"{}\"", base);
  const std::string encoded = percent_encode(base);
  return fmt::format("attachment; filename=\"{}\"; filename*=UTF-8''{}", encoded, encoded);
}

}  // namespace glovebox::serve
