#include "host/path_facts.h"

#include <cerrno>
#include <cstdlib>
#include <memory>

#include <sys/stat.h>

namespace glovebox::host {
namespace {

PathKind kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return PathKind::Directory;
  if (S_ISREG(mode)) return PathKind::File;
  if (S_ISSOCK(mode)) return PathKind::Socket;
  return PathKind::Other;
}

}  // namespace

Result<PathFacts> look_up_from_here(const std::string& path) {
  if (path.empty()) return fail(Code::Invalid, "an empty path names nothing");
  if (path.find('\0') != std::string::npos) return fail(Code::Invalid, "a path with a NUL byte");
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (!real) {
    if (errno == ENOENT) return fail(Code::NotFound, "{}: no such file or directory", path);
    return fail_os(errno, "{}", path);
  }
  struct stat info{};
  if (::lstat(real.get(), &info) != 0) return fail_os(errno, "{}", path);
  return PathFacts{.path = real.get(),
                   .kind = kind_of(info.st_mode),
                   .device = info.st_dev,
                   .inode = info.st_ino,
                   .owner = info.st_uid,
                   .group = info.st_gid};
}

Result<PathFacts> look_up(const std::string& path) {
  if (path.empty() || path.front() != '/') {
    return fail(Code::Invalid, "'{}' is not an absolute path", path);
  }
  return look_up_from_here(path);
}

Result<std::string> resolve_new_path(const std::string& path) {
  if (!path.starts_with('/')) return fail(Code::Invalid, "'{}' is not an absolute path", path);
  std::string resolved = "/";
  bool exists = true;
  for (const std::string& name : components(path)) {
    if (name == ".") continue;
    if (!exists && name == "..") {
      return fail(Code::Invalid, "{}: '..' behind what is not there", path);
    }
    const std::string next = resolved == "/" ? "/" + name : resolved + "/" + name;
    if (exists) {
      auto facts = look_up(next);
      if (facts) {
        resolved = std::move(facts->path);
        continue;
      }
      struct stat info{};
      const bool is_missing =
          facts.error().code == Code::NotFound && ::lstat(next.c_str(), &info) != 0;
      if (!is_missing) return tl::unexpected(std::move(facts).error());
      exists = false;
    }
    resolved = next;
  }
  return resolved;
}

std::vector<std::string> components(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const std::size_t end = path.find('/');
    if (end != 0) parts.emplace_back(path.substr(0, end));
    if (end == std::string_view::npos) break;
    path.remove_prefix(end + 1);
  }
  return parts;
}

bool is_within(std::string_view path, std::string_view tree) {
  if (tree == "/") return !path.empty() && path.front() == '/';
  if (!path.starts_with(tree)) return false;
  return path.size() == tree.size() || path[tree.size()] == '/';
}

}  // namespace glovebox::host
