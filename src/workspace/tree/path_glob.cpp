#include "workspace/tree/path_glob.h"

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

std::string folded(std::string_view text, Case letters) {
  std::string out(text);
  for (char& byte : out) {
    if (letters == Case::Folded && byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte + 32);
  }
  return out;
}

}  // namespace

Result<Glob> Glob::parse(std::string_view pattern, Case letters) {
  if (pattern.size() > kLongestPattern) return fail(Code::Invalid, "a pattern that is too long");
  Glob glob;
  glob.pattern_ = pattern;
  glob.letters_ = letters;
  if (pattern.ends_with('/')) pattern.remove_suffix(1);
  const std::vector<std::string_view> parts = split(pattern);
  for (const std::string_view part : parts) {
    if (part.empty() || part == "." || part == "..") {
      return fail(Code::Invalid, "pattern '{}': empty names, '.' and '..' match nothing",
                  printable(pattern));
    }
    const bool repeats = part == "**" && !glob.parts_.empty() && glob.parts_.back() == "**";
    if (!repeats) glob.parts_.emplace_back(part);
  }
  auto path = GlobPath::parse(parts, {.letters = letters});
  if (!path) {
    return fail(Code::Invalid, "pattern '{}': {}", printable(pattern), path.error().message);
  }
  glob.path_ = *std::move(path);
  return glob;
}

bool Glob::matches_names(const std::vector<std::string_view>& names) const {
  return path_.match(names).whole;
}

bool Glob::matches(std::string_view path) const { return matches_names(split(path)); }

bool Glob::selects(std::string_view path) const {
  const auto names = split(path);
  if (parts_.size() > 1) return path_.match(names).beginning;
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return path_.part_matches(0, name); });
}

bool Glob::leads_through(std::string_view name) const {
  const std::size_t first = parts_.front() == "**" ? 1 : 0;
  return first + 1 < parts_.size() && path_.part_matches(first, name);
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
