#include "guest/files/search_glob.h"

#include <algorithm>

namespace glovebox::guest {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool in_ranges(std::string_view ranges, char c) {
  const auto value = static_cast<unsigned char>(c);
  for (std::size_t i = 0; i + 1 < ranges.size(); i += 2) {
    if (value >= static_cast<unsigned char>(ranges[i]) &&
        value <= static_cast<unsigned char>(ranges[i + 1])) {
      return true;
    }
  }
  return false;
}

// The set behind an opening bracket. Takes it off the pattern, with the closing bracket.
Result<std::string> take_set(std::string_view& pattern, bool& negated) {
  std::string_view rest = pattern;
  negated = rest.starts_with('!') || rest.starts_with('^');
  if (negated) rest.remove_prefix(1);
  std::string ranges;
  bool first = true;
  while (!rest.empty() && (first || rest.front() != ']')) {
    if (rest.front() == '\\' && rest.size() > 1) rest.remove_prefix(1);
    const char from = rest.front();
    rest.remove_prefix(1);
    char to = from;
    if (rest.size() >= 2 && rest[0] == '-' && rest[1] != ']') {
      to = rest[1];
      rest.remove_prefix(2);
    }
    ranges += from;
    ranges += to;
    first = false;
  }
  if (rest.empty()) return fail(Code::Invalid, "a bracket that is not closed in a pattern");
  rest.remove_prefix(1);
  pattern = rest;
  return ranges;
}

}  // namespace

Result<Glob> Glob::parse(std::string_view pattern, Case letters) {
  Glob glob(letters);
  glob.whole_path_ =
      pattern.find('/') != std::string_view::npos || pattern.find("**") != std::string_view::npos;
  while (pattern.starts_with("./")) pattern.remove_prefix(2);
  bool at_component = true;
  while (!pattern.empty()) {
    Token token;
    const char c = pattern.front();
    if (at_component && pattern.starts_with("**/")) {
      token.kind = Token::Kind::Directories;
      pattern.remove_prefix(3);
      glob.tokens_.push_back(std::move(token));
      continue;
    }
    if (pattern.starts_with("**")) {
      token.kind = Token::Kind::Everything;
      while (pattern.starts_with('*')) pattern.remove_prefix(1);
    } else if (c == '*') {
      token.kind = Token::Kind::Run;
      pattern.remove_prefix(1);
    } else if (c == '?') {
      token.negated = true;
      token.ranges = "//";
      pattern.remove_prefix(1);
    } else if (c == '[') {
      pattern.remove_prefix(1);
      TRY(token.ranges, take_set(pattern, token.negated));
    } else {
      if (c == '\\') pattern.remove_prefix(1);
      if (pattern.empty()) return fail(Code::Invalid, "a pattern that ends in a backslash");
      token.ranges = {pattern.front(), pattern.front()};
      pattern.remove_prefix(1);
    }
    at_component = c == '/';
    glob.tokens_.push_back(std::move(token));
  }
  return glob;
}

bool Glob::takes(const Token& token, char c) const {
  switch (token.kind) {
    case Token::Kind::Run: return c != '/';
    case Token::Kind::Everything:
    case Token::Kind::Directories: return true;
    case Token::Kind::One: break;
  }
  if (c == '/' && token.negated) return false;
  bool found = in_ranges(token.ranges, c);
  if (case_ == Case::Ignored && !found) {
    const char small = lower(c);
    const char large = small >= 'a' && small <= 'z' ? static_cast<char>(small - 'a' + 'A') : small;
    found = in_ranges(token.ranges, small) || in_ranges(token.ranges, large);
  }
  return found != token.negated;
}

void Glob::settle(std::vector<char>& places, bool at_component) const {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (places[i] == 0 || tokens_[i].kind == Token::Kind::One) continue;
    // Directories are left only between two components.
    if (tokens_[i].kind != Token::Kind::Directories || at_component) places[i + 1] = 1;
  }
}

bool Glob::matches(std::string_view path) const {
  if (!whole_path_) path = path.substr(path.rfind('/') + 1);
  std::vector<char> places(tokens_.size() + 1, 0);
  places[0] = 1;
  settle(places, /*at_component=*/true);
  std::vector<char> next(places.size());
  for (const char c : path) {
    std::ranges::fill(next, 0);
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (places[i] == 0 || !takes(tokens_[i], c)) continue;
      next[tokens_[i].kind == Token::Kind::One ? i + 1 : i] = 1;
    }
    settle(next, c == '/');
    places.swap(next);
  }
  return places.back() != 0;
}

}  // namespace glovebox::guest
