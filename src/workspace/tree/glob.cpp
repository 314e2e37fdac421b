#include "workspace/tree/glob.h"

#include "workspace/tree/printable.h"

#include <algorithm>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kLongestPattern = 4096;

std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> names;
  for (;;) {
    const std::size_t slash = path.find('/');
    names.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return names;
    path.remove_prefix(slash + 1);
  }
}

char folded(char byte, Case letters) {
  if (letters == Case::Folded && byte >= 'A' && byte <= 'Z') return static_cast<char>(byte + 32);
  return byte;
}

std::string folded(std::string_view text, Case letters) {
  std::string out(text);
  for (char& byte : out) byte = folded(byte, letters);
  return out;
}

// The index after the class that starts at `at`, npos when it does not end.
std::size_t class_end(std::string_view pattern, std::size_t at) {
  std::size_t end = at + 1;
  if (end < pattern.size() && pattern[end] == '!') ++end;
  if (end < pattern.size() && pattern[end] == ']') ++end;  // "[]a]": the first ] is a member
  end = pattern.find(']', end);
  return end == std::string_view::npos ? end : end + 1;
}

bool in_class(std::string_view body, char byte, Case letters) {
  const bool is_negated = body.starts_with('!');
  if (is_negated) body.remove_prefix(1);
  const auto value = static_cast<unsigned char>(folded(byte, letters));
  bool found = false;
  for (std::size_t at = 0; at < body.size(); ++at) {
    const auto low = static_cast<unsigned char>(folded(body[at], letters));
    auto high = low;
    if (at + 2 < body.size() && body[at + 1] == '-') {
      high = static_cast<unsigned char>(folded(body[at + 2], letters));
      at += 2;
    }
    found = found || (low <= value && value <= high);
  }
  return found != is_negated;
}

// Matches one character of a name at pattern[at]; gives the index behind it, npos for no match.
std::size_t match_one(std::string_view pattern, std::size_t at, char byte, Case letters) {
  if (at >= pattern.size()) return std::string_view::npos;
  if (pattern[at] == '?') return at + 1;
  if (pattern[at] == '[') {
    const std::size_t end = class_end(pattern, at);
    const bool is_in = in_class(pattern.substr(at + 1, end - at - 2), byte, letters);
    return is_in ? end : std::string_view::npos;
  }
  if (pattern[at] == '*') return std::string_view::npos;
  return folded(pattern[at], letters) == folded(byte, letters) ? at + 1 : std::string_view::npos;
}

// One name. On a mismatch the last star takes one character more; earlier stars need never be
// tried again, so the time is at most pattern times name.
bool match_name(std::string_view pattern, std::string_view name, Case letters) {
  std::size_t at = 0;
  std::size_t star = std::string_view::npos;
  std::size_t star_at = 0;
  for (std::size_t i = 0; i < name.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      star_at = i;
      continue;
    }
    if (const std::size_t next = match_one(pattern, at, name[i], letters);
        next != std::string_view::npos) {
      at = next;
      ++i;
      continue;
    }
    if (star == std::string_view::npos) return false;
    at = star + 1;
    i = ++star_at;
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

Result<void> check_part(std::string_view pattern, std::string_view part) {
  if (part.empty() || part == "." || part == "..") {
    return fail(Code::Invalid, "pattern '{}': empty names, '.' and '..' match nothing",
                printable(pattern));
  }
  for (std::size_t at = 0; at < part.size(); ++at) {
    if (part[at] != '[') continue;
    at = class_end(part, at);
    if (at == std::string_view::npos) {
      return fail(Code::Invalid, "pattern '{}': '[' without ']'", printable(pattern));
    }
    --at;
  }
  return {};
}

}  // namespace

Result<Glob> Glob::parse(std::string_view pattern, Case letters) {
  if (pattern.size() > kLongestPattern) return fail(Code::Invalid, "a pattern that is too long");
  Glob glob;
  glob.pattern_ = pattern;
  glob.letters_ = letters;
  if (pattern.ends_with('/')) pattern.remove_suffix(1);
  for (const std::string_view part : split(pattern)) {
    TRY_VOID(check_part(pattern, part));
    const bool repeats = part == "**" && !glob.parts_.empty() && glob.parts_.back() == "**";
    if (!repeats) glob.parts_.emplace_back(part);
  }
  return glob;
}

// row[j]: the parts so far match the first j names. One row per part.
bool Glob::matches_names(const std::vector<std::string_view>& names) const {
  std::vector<bool> row(names.size() + 1, false);
  row[0] = true;
  for (const std::string& part : parts_) {
    std::vector<bool> next(names.size() + 1, false);
    if (part == "**") {
      bool seen = false;
      for (std::size_t j = 0; j <= names.size(); ++j) next[j] = seen = seen || row[j];
    } else {
      for (std::size_t j = 0; j < names.size(); ++j) {
        next[j + 1] = row[j] && match_name(part, names[j], letters_);
      }
    }
    row = std::move(next);
  }
  return row[names.size()];
}

bool Glob::matches(std::string_view path) const { return matches_names(split(path)); }

bool Glob::selects(std::string_view path) const {
  const auto names = split(path);
  if (parts_.size() == 1) {
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return parts_[0] == "**" || match_name(parts_[0], name, letters_);
    });
  }
  for (std::size_t count = 1; count <= names.size(); ++count) {
    if (matches_names({names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count)})) {
      return true;
    }
  }
  return false;
}

bool Glob::leads_through(std::string_view name) const {
  const auto first = std::find_if(parts_.begin(), parts_.end(),
                                  [](const std::string& part) { return part != "**"; });
  return first != parts_.end() && first + 1 != parts_.end() && match_name(*first, name, letters_);
}

std::string Glob::needed_name() const {
  const auto plain = std::find_if(parts_.rbegin(), parts_.rend(), [](const std::string& part) {
    return part.find_first_of("*?[") == std::string::npos;
  });
  return plain == parts_.rend() ? std::string() : folded(*plain, letters_);
}

void GlobSet::add(Glob glob) {
  const std::string name = glob.needed_name();
  auto& list = name.empty() ? without_name_ : by_name_[name];
  list.push_back(globs_.size());
  globs_.push_back(std::move(glob));
}

bool GlobSet::matches(std::string_view path) const {
  const auto names = split(path);
  const auto any_of = [&](const std::vector<std::size_t>& indexes) {
    return std::any_of(indexes.begin(), indexes.end(),
                       [&](std::size_t i) { return globs_[i].matches_names(names); });
  };
  if (any_of(without_name_)) return true;
  if (by_name_.empty()) return false;
  // By the name as it is for patterns that tell letters apart, in small ones for the others.
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    const auto exact = by_name_.find(std::string(name));
    if (exact != by_name_.end() && any_of(exact->second)) return true;
    const auto small = by_name_.find(folded(name, Case::Folded));
    return small != by_name_.end() && small != exact && any_of(small->second);
  });
}

Result<std::vector<Glob>> parse_globs(const std::vector<std::string>& patterns, Case letters) {
  std::vector<Glob> globs;
  globs.reserve(patterns.size());
  for (const std::string& pattern : patterns) {
    TRY(Glob glob, Glob::parse(pattern, letters));
    globs.push_back(std::move(glob));
  }
  return globs;
}

}  // namespace glovebox::workspace
