#include "workspace/commit/gate_places.h"

#include "base/file.h"
#include "workspace/git/git_refs.h"

#include <algorithm>
#include <set>

namespace glovebox::workspace {
namespace {

bool has(BorrowedFd original, const std::string& path, NodeType type) {
  const auto [dir, name] = split_path(path);
  const auto parent = open_directory_beneath(original, dir);
  if (!parent) return false;
  const auto node = look(*parent, name);
  return node && node->is(type);
}

// As git tells one (is_git_directory), by its HEAD alone: the rest, directories of objects and
// refs, a box may add, and a repository that was checked in has no empty ones.
bool is_repository(BorrowedFd original, const std::string& dir) {
  constexpr std::size_t kLargestHead = std::size_t{64} << 10;
  const std::string head = join_path(dir, "HEAD");
  if (has(original, head, NodeType::Symlink)) return true;
  const auto file = open_regular_beneath(original, head);
  if (!file) return false;
  const auto text = read_fd(*file, kLargestHead);
  return text && begins_as_ref(*text);
}

bool is_known(const GateRules& rules, std::string_view name) {
  return std::any_of(rules.begin(), rules.end(), [&](const GateRule& rule) {
    const auto& globs = rule.paths.globs();
    return rule.act != RuleAct::Gather &&
           std::any_of(globs.begin(), globs.end(),
                       [&](const Glob& glob) { return glob.leads_through(name); });
  });
}

}  // namespace

std::vector<Alias> names_above(const GateRules& rules, std::string_view origin,
                               BorrowedFd original) {
  std::vector<Alias> aliases;
  const auto own = look(original, ".git");
  const bool is_checkout = own && own->exists();
  for (std::size_t end = origin.size(); end != std::string_view::npos && end > 0;) {
    const std::size_t slash = origin.rfind('/', end - 1);
    if (slash == std::string_view::npos) break;
    const std::string_view name = origin.substr(slash + 1, end - slash - 1);
    if (!name.empty() && is_known(rules, name)) {
      aliases.push_back({.directory = "", .name = std::string(origin.substr(slash + 1))});
    }
    if (is_checkout) break;
    end = slash;
  }
  return aliases;
}

std::vector<Alias> find_repositories(BorrowedFd original, const std::vector<Change>& changes) {
  std::set<std::string> looked_at;
  std::vector<Alias> aliases;
  for (const Change& change : changes) {
    const std::string& path = change.path;
    for (std::size_t start = 0; start <= path.size();) {
      const std::size_t end = std::min(path.find('/', start), path.size());
      const std::string dir = start == 0 ? std::string() : path.substr(0, start - 1);
      start = end + 1;
      if (dir.ends_with(".git") || dir.find(".git/") != std::string::npos) break;
      if (!looked_at.insert(dir).second) continue;
      if (is_repository(original, dir))
        aliases.push_back({dir, join_path(split_path(dir).first, ".git")});
    }
  }
  return aliases;
}

}  // namespace glovebox::workspace
