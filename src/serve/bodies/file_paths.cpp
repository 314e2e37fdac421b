#include "serve/bodies/file_paths.h"

#include "host/path_facts.h"
#include "serve/bodies/host_rules.h"

#include <algorithm>
#include <optional>

namespace glovebox::serve {

FileRoots::FileRoots(const session::SessionInfo& info) {
  for (const session::WorkspaceInfo& workspace : info.workspaces) {
    const std::string& inside = workspace.path_inside();
    roots_.push_back({inside, workspace.mode != WorkspaceMode::Read, inside});
  }
  // A workspace goes by the name it was asked for as well.
  for (std::size_t i = 0; i < info.workspaces.size(); ++i) {
    const auto asked = info.effective.labels.find(fmt::format("{}{}", kAskedPathLabel, i));
    if (asked == info.effective.labels.end()) continue;
    const std::optional<std::string> normal = normal_path(asked->second);
    if (normal) roots_.push_back({*normal, roots_[i].writable, roots_[i].place});
  }
  for (const session::BindRequest& bind : info.effective.binds) {
    const std::string& dest = bind.dest.empty() ? bind.source : bind.dest;
    roots_.push_back({dest, bind.mode != WorkspaceMode::Read, dest});
  }
}

Result<FilePath, ApiError> FileRoots::find(std::string_view path, FileUse use) const {
  if (path.empty()) return refuse(400, "INVALID_FILE", "a path is empty");
  if (path.find('\0') != std::string_view::npos) {
    return refuse(400, "INVALID_FILE", "a path holds a NUL byte");
  }
  const std::string home = roots_.empty() ? "/home/box" : roots_.front().path;
  const std::string absolute =
      path.starts_with('/') ? std::string(path) : fmt::format("{}/{}", home, path);
  const std::optional<std::string> normal = normal_path(absolute);
  const FileRoot* root = nullptr;
  for (const FileRoot& each : roots_) {
    if (!normal || !host::is_within(*normal, each.path)) continue;
    if (root == nullptr || each.path.size() > root->path.size()) root = &each;
  }
  if (root == nullptr) {
    return refuse(400, "INVALID_FILE", "{}: outside of the session's workspaces", path);
  }
  if (use == FileUse::Write && !root->writable) {
    return refuse(403, "RUNTIME_ERROR", "{}: {} is read-only", path, root->path);
  }
  // Two names of one workspace are one root.
  const auto first = std::ranges::find(roots_, root->place, &FileRoot::place);
  return FilePath{root->place + normal->substr(root->path.size()),
                  static_cast<std::size_t>(first - roots_.begin())};
}

std::string FileRoots::relative(std::string_view path) const {
  if (roots_.empty() || !host::is_within(path, roots_.front().path)) return std::string(path);
  std::string_view below = path.substr(std::min(roots_.front().path.size(), path.size()));
  while (below.starts_with('/')) below.remove_prefix(1);
  return below.empty() ? "." : std::string(below);
}

std::optional<std::string> normal_path(std::string_view absolute) {
  std::vector<std::string_view> parts;
  while (!absolute.empty()) {
    const std::size_t end = std::min(absolute.find('/'), absolute.size());
    const std::string_view part = absolute.substr(0, end);
    absolute.remove_prefix(std::min(end + 1, absolute.size()));
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (parts.empty()) {
      return std::nullopt;
    } else {
      parts.pop_back();
    }
  }
  std::string normal;
  for (const std::string_view part : parts) normal.append("/").append(part);
  return normal.empty() ? "/" : normal;
}

std::optional<std::uint32_t> mode_from_digits(std::int64_t digits) {
  if (digits < 0 || digits > 7777) return std::nullopt;
  std::uint32_t mode = 0;
  for (std::int64_t place = 1000; place > 0; place /= 10) {
    const std::int64_t digit = digits / place % 10;
    if (digit > 7) return std::nullopt;
    mode = mode * 8 + static_cast<std::uint32_t>(digit);
  }
  return mode;
}

std::int64_t mode_to_digits(std::uint32_t mode) {
  std::int64_t digits = 0;
  for (int shift = 6; shift >= 0; shift -= 3) digits = digits * 10 + ((mode >> shift) & 7U);
  return digits;
}

}  // namespace glovebox::serve
