#include "authority/terms.h"
#include "host/facts.h"
#include "host/resolve_authority.h"
#include "mcp/box.h"
#include "policy/disk_lister.h"
#include "policy/expand.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace glovebox::mcp {

std::vector<std::string> RealHost::directories(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code problem;  // one that cannot be read has none
  for (const auto& entry : std::filesystem::directory_iterator(path, problem)) {
    const auto status = entry.symlink_status(problem);
    if (!problem && status.type() == std::filesystem::file_type::directory) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> RealHost::system() const {
  std::vector<std::string> names;
  const auto facts = host::read_facts();
  if (!facts) return {"usr", "etc", "bin", "sbin", "lib", "lib32", "lib64", "libx32"};
  for (const host::SystemEntry& entry : facts->system) names.push_back(entry.name);
  return names;
}

std::optional<HostView::Kind> RealHost::look_at(const std::string& path) const {
  const auto found = host::look_up(path);
  if (!found) return std::nullopt;
  return found->kind == host::PathKind::Directory ? Kind::Directory : Kind::Other;
}

bool RealHost::is_placeholder(const std::string& path) const { return mcp::is_placeholder(path); }

std::string RealHost::resolve(const std::string& path) const {
  auto resolved = host::resolve_existing_part(path);
  return resolved ? *std::move(resolved) : path;
}

Result<std::vector<std::string>> RealHost::matches(const std::string& glob) const {
  TRY(policy::PathPattern pattern, policy::PathPattern::parse(glob));
  policy::Policy denials;
  denials.path_rules.push_back(
      {std::move(pattern), policy::PathUse::Read, authority::Effect::Deny});
  policy::normalise(denials);
  TRY(policy::DiskLister lister, policy::DiskLister::open());
  TRY(const authority::AuthoritySet set, policy::expand_patterns(denials, lister));
  std::vector<std::string> paths;
  for (const authority::Rule& rule : set.rules()) {
    const auto used = policy::find_used_path(rule.capability);
    if (used) paths.push_back(used->path.text());
  }
  return paths;
}

std::string RealHost::home() const { return variable("HOME"); }

std::string RealHost::variable(std::string_view name) const {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? "" : value;
}

}  // namespace glovebox::mcp
