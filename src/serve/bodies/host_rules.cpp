#include "serve/bodies/host_rules.h"

#include "host/path_facts.h"

#include <algorithm>

namespace glovebox::serve {
namespace {

// An entry of an allowlist means what it leads to now.
bool is_within_any(const std::string& path, const std::vector<std::string>& roots) {
  return std::ranges::any_of(roots, [&](const std::string& root) {
    const auto resolved = host::resolve_new_path(root);
    return resolved && host::is_within(path, *resolved);
  });
}

Result<void, ApiError> check_not_own(const HostRules& rules, const std::string& path) {
  for (const std::string& own : rules.own) {
    const auto resolved = host::resolve_new_path(own);
    if (!resolved) return refuse(500, "RUNTIME_ERROR", "{}", resolved.error().message);
    if (host::is_within(path, *resolved) || host::is_within(*resolved, path)) {
      return refuse(400, "RUNTIME_ERROR", "{}: it holds what is the service's own", path);
    }
  }
  return {};
}

Result<std::string, ApiError> check_workspace(const HostRules& rules,
                                              const session::WorkspaceRequest& workspace) {
  const auto resolved = host::resolve_new_path(workspace.path);
  if (!resolved) return refuse(400, "RUNTIME_ERROR", "workspace {}", resolved.error().message);
  if (!rules.allowed_workspaces.empty() && !is_within_any(*resolved, rules.allowed_workspaces)) {
    return refuse(400, "RUNTIME_ERROR", "workspace {}: not in the allowlist (allowed_workspaces)",
                  workspace.path);
  }
  TRY_VOID(check_not_own(rules, *resolved));
  return *resolved;
}

Result<void, ApiError> check_bind(const HostRules& rules, session::BindRequest& bind) {
  const auto found = host::look_up(bind.source);
  if (!found) return refuse(400, "RUNTIME_ERROR", "bind source {}", found.error().message);
  const std::string& resolved = found->path;
  if (!is_within_any(resolved, rules.allowed_writable)) {
    return refuse(400, "RUNTIME_ERROR", "bind source {}: not in the allowlist (allowed_writable)",
                  bind.source);
  }
  TRY_VOID(check_not_own(rules, resolved));
  // An extra writable directory stays at the path that it was named by.
  bind.source = resolved;
  return {};
}

Result<void> check_unmoved(const std::string& known, const std::string& resolved) {
  if (known == resolved) return {};
  return fail(Code::Denied, "{}: it leads to {} now, which is not what the session was handed",
              known, resolved);
}

}  // namespace

Result<void, ApiError> apply_host_rules(const HostRules& rules, CreateOrder& order) {
  for (const session::WorkspaceRequest& workspace : order.session.workspaces) {
    TRY(std::string resolved, check_workspace(rules, workspace));
    order.resolved_workspaces.push_back(std::move(resolved));
  }
  for (session::BindRequest& bind : order.session.binds) TRY_VOID(check_bind(rules, bind));
  if (order.profile == Profile::Balanced) {
    order.session.binds.push_back(
        {.source = rules.shared_tmp, .dest = "/tmp", .mode = WorkspaceMode::Write});
  }
  return {};
}

Result<void> check_host_rules(const HostRules& rules, const session::BoxRequest& request) {
  const auto shared_tmp = host::resolve_new_path(rules.shared_tmp);
  CreateOrder order;
  order.session = request;
  std::erase_if(order.session.binds, [&](const session::BindRequest& bind) {
    return bind.dest == "/tmp" && shared_tmp && bind.source == *shared_tmp;
  });
  const std::vector<session::BindRequest> binds = order.session.binds;
  if (const auto checked = apply_host_rules(rules, order); !checked) {
    return fail(Code::Denied, "{}", checked.error().message);
  }
  for (std::size_t i = 0; i < binds.size(); ++i) {
    TRY_VOID(check_unmoved(binds[i].source, order.session.binds[i].source));
  }
  for (std::size_t i = 0; i < request.workspaces.size(); ++i) {
    TRY_VOID(check_unmoved(request.workspaces[i].path, order.resolved_workspaces[i]));
  }
  return {};
}

}  // namespace glovebox::serve
