#include "workspace/git/git_ignore.h"

#include "workspace/tree/tree_fs.h"

#include <algorithm>

namespace glovebox::workspace {
namespace {

constexpr const char* kExclude = ".git/info/exclude";
constexpr std::size_t kMostPatterns = 10'000;

}  // namespace

GitIgnores::Patterns GitIgnores::parse(const std::string& text, const std::string& directory) {
  Patterns patterns;
  std::string_view rest(text);
  while (!rest.empty() && patterns.size() < kMostPatterns) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    if (line.empty() || line.front() == '#') continue;
    Pattern pattern;
    pattern.is_negated = line.starts_with('!');
    if (pattern.is_negated) line.remove_prefix(1);
    pattern.is_for_directories = line.ends_with('/');
    if (pattern.is_for_directories) line.remove_suffix(1);
    const bool is_anchored = line.find('/') != std::string_view::npos;
    if (line.starts_with('/')) line.remove_prefix(1);
    const std::string whole = is_anchored ? std::string(line) : "**/" + std::string(line);
    // What this kind of pattern cannot say matches nothing.
    auto glob = Glob::parse(join_path(directory, whole));
    if (!glob) continue;
    pattern.glob = *std::move(glob);
    patterns.push_back(std::move(pattern));
  }
  return patterns;
}

const GitIgnores::Patterns& GitIgnores::patterns_of(const std::string& directory) {
  const auto [at, is_first] = patterns_.emplace(directory, Patterns());
  if (!is_first) return at->second;
  if (directory.empty()) {
    if (const auto text = read_(kExclude)) at->second = parse(*text, "");
  }
  if (const auto text = read_(join_path(directory, ".gitignore"))) {
    Patterns more = parse(*text, directory);
    std::move(more.begin(), more.end(), std::back_inserter(at->second));
  }
  return at->second;
}

// The last pattern of the innermost list that matches decides.
bool GitIgnores::ignores_one(const std::string& path, Kind kind) {
  std::string directory = path;
  while (!directory.empty()) {
    directory = split_path(directory).first;
    const Patterns& patterns = patterns_of(directory);
    const auto found = std::find_if(patterns.rbegin(), patterns.rend(), [&](const Pattern& one) {
      return (kind == Kind::Directory || !one.is_for_directories) && one.glob.matches(path);
    });
    if (found != patterns.rend()) return !found->is_negated;
  }
  return false;
}

bool GitIgnores::ignores(const std::string& path) {
  for (std::size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    if (ignores_one(path.substr(0, slash), Kind::Directory)) return true;
  }
  return ignores_one(path, Kind::File);
}

}  // namespace glovebox::workspace
