#include "policy/path_pattern.h"

#include "base/plain_text.h"

#include <algorithm>
#include <utility>

namespace glovebox::policy {
namespace {

using authority::AbsolutePath;

constexpr std::string_view kAnyDepth = "**";

constexpr GlobSyntax kSyntax{.dialect = GlobDialect::Stars, .unit = GlobUnit::Character};

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

}  // namespace

bool has_wildcard(std::string_view component) {
  return component.find_first_of("*?") != std::string_view::npos;
}

// In this syntax everything is a pattern.
bool component_matches(std::string_view pattern, std::string_view name) {
  return GlobPattern::parse(pattern, kSyntax).value().matches(name);
}

PathPattern::PathPattern(std::vector<std::string> components, bool has_wildcards)
    : components_(std::move(components)), has_wildcards_(has_wildcards) {
  for (const std::string& component : components_) text_.append("/").append(component);
  if (text_.empty()) text_ = "/";
  if (!has_wildcards_) return;
  const std::vector<std::string_view> parts(components_.begin(), components_.end());
  path_ = GlobPath::parse(parts, kSyntax).value();
}

PathPattern PathPattern::exactly(const AbsolutePath& path) {
  const std::vector<std::string_view> parts = split_names(path.text());
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
  for (const std::string_view component : split_names(text)) {
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

GlobPath::Matches PathPattern::match(const AbsolutePath& path) const {
  if (has_wildcards_) return path_.match(split_names(path.text()));
  const std::string& text = path.text();
  const bool is_beginning = text_ == "/" || (text.starts_with(text_) && text[text_.size()] == '/');
  return {text == text_, text == text_ || is_beginning};
}

bool PathPattern::matches(const AbsolutePath& path) const { return match(path).whole; }

bool PathPattern::matches_at_or_above(const AbsolutePath& path) const {
  return match(path).beginning;
}

Result<PathOrPattern> parse_path_or_pattern(std::string_view text) {
  TRY(PathPattern pattern, PathPattern::parse(text));
  if (pattern.has_wildcards()) return PathOrPattern(std::move(pattern));
  TRY(AbsolutePath path, AbsolutePath::parse(pattern.text()));
  return PathOrPattern(std::move(path));
}

}  // namespace glovebox::policy
