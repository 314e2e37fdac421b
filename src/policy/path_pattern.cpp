#include "policy/path_pattern.h"

#include "base/plain_text.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace glovebox::policy {
namespace {

using authority::AbsolutePath;

constexpr std::string_view kAnyDepth = "**";

constexpr std::uint64_t bit(std::size_t i) { return std::uint64_t{1} << i; }

std::vector<std::string_view> split_path(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t slash = std::min(text.find('/', at), text.size());
    const std::string_view part = text.substr(at, slash - at);
    at = slash + 1;
    if (!part.empty() && part != ".") parts.push_back(part);
  }
  return parts;
}

Result<void> check_spelling(std::string_view text) {
  if (text.starts_with('~')) {
    return fail(Code::Invalid, "path {}: '~' is not taken (write the directory it stands for)",
                quoted(text));
  }
  if (text.starts_with('$')) {
    return fail(Code::Invalid, "path {}: variables are not replaced (write the path out)",
                quoted(text));
  }
  const std::size_t bracket = text.find('[');
  if (bracket != std::string_view::npos && text.find(']', bracket) != std::string_view::npos) {
    return fail(
        Code::Invalid,
        "path {}: '[...]' is no wildcard here (use '?' or '*', or put the path taken by the "
        "letter under 'rules')",
        quoted(text));
  }
  const std::size_t brace = text.find('{');
  if (brace != std::string_view::npos && text.find('}', brace) != std::string_view::npos &&
      text.find(',', brace) != std::string_view::npos) {
    return fail(Code::Invalid, "path {}: '{{a,b}}' is no wildcard here (write a path for each)",
                quoted(text));
  }
  return {};
}

Result<void> check_component(std::string_view component, std::string_view whole) {
  if (component != kAnyDepth && component.find(kAnyDepth) != std::string_view::npos) {
    return fail(Code::Invalid, "path {}: '**' must be a whole component, as in /a/**/b",
                quoted(whole));
  }
  return {};
}

// The length of the character at the start of `text`, which is not empty.
std::size_t character_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (length > text.size()) return 1;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0U) != 0x80) return 1;
  }
  return length;
}

}  // namespace

bool has_wildcard(std::string_view component) {
  return component.find_first_of("*?") != std::string_view::npos;
}

// After a mismatch only the last '*' need be tried again, one character further: what an earlier
// one could take, the last one can take as well.
bool component_matches(std::string_view pattern, std::string_view name) {
  std::size_t at = 0;
  std::size_t in = 0;
  std::size_t star = std::string_view::npos;
  std::size_t taken = 0;
  while (in < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      taken = in;
    } else if (at < pattern.size() && pattern[at] == '?') {
      ++at;
      in += character_length(name.substr(in));
    } else if (at < pattern.size() && pattern[at] == name[in]) {
      ++at;
      ++in;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      taken += character_length(name.substr(taken));
      in = taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

PathPattern::PathPattern(std::vector<std::string> components, bool has_wildcards)
    : components_(std::move(components)), has_wildcards_(has_wildcards) {
  for (const std::string& component : components_) text_.append("/").append(component);
  if (text_.empty()) text_ = "/";
  for (std::size_t i = 0; has_wildcards_ && i < components_.size(); ++i) {
    if (components_[i] == kAnyDepth) any_depth_ |= bit(i);
  }
}

PathPattern PathPattern::exactly(const AbsolutePath& path) {
  const std::vector<std::string_view> parts = split_path(path.text());
  return {{parts.begin(), parts.end()}, /*has_wildcards=*/false};
}

Result<PathPattern> PathPattern::parse(std::string_view text) {
  TRY_VOID(check_spelling(text));
  // Length, characters and ".." are judged as for a path, with harmless letters for the wildcards.
  std::string plain(text);
  std::replace_if(plain.begin(), plain.end(), [](char c) { return c == '*' || c == '?'; }, 'x');
  if (auto checked = AbsolutePath::parse(plain); !checked) {
    Error error = std::move(checked).error();
    const std::string stand_in = quoted(plain);
    const std::size_t at = error.message.find(stand_in);
    if (at != std::string::npos) error.message.replace(at, stand_in.size(), quoted(text));
    return tl::unexpected(std::move(error));
  }
  std::vector<std::string> components;
  bool has_wildcards = false;
  for (const std::string_view component : split_path(text)) {
    TRY_VOID(check_component(component, text));
    const bool repeats =
        component == kAnyDepth && !components.empty() && components.back() == kAnyDepth;
    if (!repeats) components.emplace_back(component);
  }
  while (!components.empty() && components.back() == kAnyDepth) components.pop_back();
  for (const std::string& component : components) has_wildcards |= has_wildcard(component);
  if (has_wildcards && components.size() > kMaxComponents) {
    return fail(Code::Invalid, "path {}: a pattern of more than {} components", quoted(text),
                kMaxComponents);
  }
  return PathPattern(std::move(components), has_wildcards);
}

// Bit i of `reached` tells whether the first i components of the pattern match what was read of the
// path so far. No "**" follows another, so skipping one of them is one shift.
PathPattern::Matches PathPattern::match(const AbsolutePath& path) const {
  if (!has_wildcards_) {
    const std::string& text = path.text();
    const bool is_beginning =
        text_ == "/" || (text.starts_with(text_) && text[text_.size()] == '/');
    return {text == text_, text == text_ || is_beginning};
  }
  const std::uint64_t whole = bit(components_.size());
  std::uint64_t reached = 1 | (any_depth_ & 1) << 1;
  bool any = (reached & whole) != 0;
  for (const std::string_view name : split_path(path.text())) {
    std::uint64_t next = reached & any_depth_;
    for (std::uint64_t left = reached & ~any_depth_ & (whole - 1); left != 0; left &= left - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(left));
      if (component_matches(components_[i], name)) next |= bit(i + 1);
    }
    reached = next | (next & any_depth_) << 1;
    any |= (reached & whole) != 0;
  }
  return {(reached & whole) != 0, any};
}

bool PathPattern::matches(const AbsolutePath& path) const { return match(path).whole; }

bool PathPattern::matches_at_or_above(const AbsolutePath& path) const { return match(path).any; }

Result<PathOrPattern> parse_path_or_pattern(std::string_view text) {
  TRY(PathPattern pattern, PathPattern::parse(text));
  if (pattern.has_wildcards()) return PathOrPattern(std::move(pattern));
  TRY(AbsolutePath path, AbsolutePath::parse(pattern.text()));
  return PathOrPattern(std::move(path));
}

}  // namespace glovebox::policy
