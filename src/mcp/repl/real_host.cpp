#include "base/file.h"
#include "host/facts.h"
#include "host/resolve_authority.h"
#include "mcp/repl/repl_box.h"
#include "policy/disk_lister.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>

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
  if (const auto found = host::look_up(path)) return found->path;
  auto resolved = host::resolve_existing_part(path);
  return resolved ? *std::move(resolved) : path;
}

bool RealHost::is_link(const std::string& path) const {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
}

Result<std::optional<std::string>> RealHost::read_small_file(const std::string& path) const {
  constexpr std::size_t kMost = 4'096;
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return std::optional<std::string>();
  }
  // Not blocked by what may have been put there since.
  TRY(const UniqueFd file, open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  TRY(std::string text, read_fd(file, kMost));
  return std::optional(std::move(text));
}

Result<std::vector<std::string>> RealHost::matches(const DenyGlob& glob, const std::string& root,
                                                   std::span<const std::string> kept) const {
  TRY(policy::DiskLister lister, policy::DiskLister::open());
  return find_matches(glob, root, kept, lister);
}

FileId RealHost::identify(const std::string& path) const {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino};
}

std::string RealHost::home() const { return variable("HOME"); }

std::string RealHost::variable(std::string_view name) const {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? "" : value;
}

}  // namespace glovebox::mcp
