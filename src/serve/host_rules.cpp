#include "serve/host_rules.h"

#include <climits>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

namespace glovebox::serve {
namespace {

Result<std::string> resolve(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (!real) return fail_os(errno, "{}", path);
  return std::string(real.get());
}

// An entry of an allowlist means what it leads to now.
bool is_within_any(const std::string& path, const std::vector<std::string>& roots) {
  return std::ranges::any_of(roots, [&](const std::string& root) {
    const auto resolved = resolve_existing_part(root);
    return resolved && is_within(path, *resolved);
  });
}

Result<void, ApiError> check_not_own(const HostRules& rules, const std::string& path) {
  for (const std::string& own : rules.own) {
    const auto resolved = resolve_existing_part(own);
    if (!resolved) continue;
    if (is_within(path, *resolved) || is_within(*resolved, path)) {
      return refuse(400, "RUNTIME_ERROR", "{}: it holds what is the service's own", path);
    }
  }
  return {};
}

Result<std::string, ApiError> check_workspace(const HostRules& rules,
                                              const session::WorkspaceRequest& workspace) {
  const auto resolved = resolve_existing_part(workspace.path);
  if (!resolved) return refuse(400, "RUNTIME_ERROR", "workspace {}", resolved.error().message);
  if (!rules.allowed_workspaces.empty() && !is_within_any(*resolved, rules.allowed_workspaces)) {
    return refuse(400, "RUNTIME_ERROR", "workspace {}: not in the allowlist (allowed_workspaces)",
                  workspace.path);
  }
  TRY_VOID(check_not_own(rules, *resolved));
  return *resolved;
}

Result<void, ApiError> check_bind(const HostRules& rules, session::BindRequest& bind) {
  const auto resolved = resolve(bind.source);
  if (!resolved) {
    return refuse(400, "RUNTIME_ERROR", "bind source {}", resolved.error().message);
  }
  if (!is_within_any(*resolved, rules.allowed_writable)) {
    return refuse(400, "RUNTIME_ERROR", "bind source {}: not in the allowlist (allowed_writable)",
                  bind.source);
  }
  TRY_VOID(check_not_own(rules, *resolved));
  // An extra writable directory stays at the path that it was named by.
  bind.source = *resolved;
  return {};
}

}  // namespace

bool is_within(std::string_view path, std::string_view root) {
  while (root.size() > 1 && root.ends_with('/')) root.remove_suffix(1);
  if (root == "/") return path.starts_with('/');
  if (!path.starts_with(root)) return false;
  return path.size() == root.size() || path[root.size()] == '/';
}

Result<std::string> resolve_existing_part(const std::string& path) {
  if (!path.starts_with('/')) return fail(Code::Invalid, "{}: not an absolute path", path);
  const std::filesystem::path wanted(path);
  std::filesystem::path resolved = "/";
  bool exists = true;
  for (const auto& component : wanted.relative_path()) {
    if (component.empty() || component == ".") continue;
    if (!exists) {
      if (component == "..") return fail(Code::Invalid, "{}: '..' behind what is not there", path);
      resolved /= component;
      continue;
    }
    const std::string next = (resolved / component).string();
    auto real = resolve(next);
    if (real) {
      resolved = *real;
    } else if (real.error().os_errno == ENOENT &&
               !std::filesystem::is_symlink(std::filesystem::symlink_status(next))) {
      exists = false;
      resolved = next;
    } else {
      return tl::unexpected(real.error());
    }
  }
  return resolved.string();
}

Result<void, ApiError> apply_host_rules(const HostRules& rules, CreateOrder& order) {
  for (const session::WorkspaceRequest& workspace : order.session.workspaces) {
    TRY(std::string resolved, check_workspace(rules, workspace));
    order.resolved_workspaces.push_back(std::move(resolved));
  }
  for (session::BindRequest& bind : order.session.binds) TRY_VOID(check_bind(rules, bind));
  if (order.profile == Profile::Balanced) {
    order.session.binds.push_back(
        {.source = rules.shared_tmp, .dest = "/tmp", .mode = session::BindMode::Write});
  }
  return {};
}

}  // namespace glovebox::serve
