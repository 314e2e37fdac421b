#include "request/box_request.h"

#include "authority/names.h"
#include "authority/paths.h"

#include <algorithm>

namespace glovebox::session {
namespace {

// Records of sessions are JSON, so their paths are UTF-8. Those of one command are only looked up.
enum class Names : std::uint8_t { Plain, Any };

Result<void> check_path(std::string_view what, const std::string& path, Names names) {
  if (path.empty()) return fail(Code::Invalid, "{}: the path is missing", what);
  if (names == Names::Any && path.front() == '/') return {};
  const auto parsed = authority::AbsolutePath::parse(path);
  if (!parsed) return fail(Code::Invalid, "{}: {}", what, parsed.error().message);
  return {};
}

bool is_plain(std::string_view text) {
  return std::ranges::none_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

Result<void> check_labels(const BoxRequest& request) {
  if (request.labels.size() > kMaxLabels) {
    return fail(Code::Invalid, "{} labels; {} is the most", request.labels.size(), kMaxLabels);
  }
  for (const auto& [name, value] : request.labels) {
    const bool fits = !name.empty() && name.size() <= kMaxLabelBytes &&
                      value.size() <= kMaxLabelBytes && is_plain(name) && is_plain(value);
    if (!fits) {
      return fail(Code::Invalid, "a label is 1 to {} plain characters, and so is its value",
                  kMaxLabelBytes);
    }
  }
  if (request.name.size() > kMaxNameBytes || !is_plain(request.name)) {
    return fail(Code::Invalid, "a session's name is at most {} plain characters", kMaxNameBytes);
  }
  return {};
}

Result<void> check_workspaces(const BoxRequest& request) {
  if (request.workspaces.size() > kMaxWorkspaces || request.binds.size() > kMaxBinds) {
    return fail(Code::Invalid, "at most {} workspaces and {} binds", kMaxWorkspaces, kMaxBinds);
  }
  const Names names = request.command.empty() ? Names::Plain : Names::Any;
  for (const WorkspaceRequest& one : request.workspaces) {
    TRY_VOID(check_path("workspace", one.path, names));
  }
  for (const BindRequest& one : request.binds) {
    TRY_VOID(check_path("bind source", one.source, names));
    if (!one.dest.empty()) TRY_VOID(check_path("bind dest", one.dest, names));
  }
  return {};
}

// One port of the box goes to one port outside.
Result<void> check_published(const std::vector<plan::Publication>& ports) {
  if (ports.size() > kMaxPublished) {
    return fail(Code::Invalid, "{} published ports; {} is the most", ports.size(), kMaxPublished);
  }
  for (std::size_t i = 0; i < ports.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const bool is_same_outside =
          ports[i].outside == ports[j].outside && ports[i].address == ports[j].address;
      if (ports[i].inside != ports[j].inside && !is_same_outside) continue;
      return fail(Code::Invalid, "publish {}: {} has one of these ports already",
                  plan::to_text(ports[i]), plan::to_text(ports[j]));
    }
  }
  return {};
}

Result<void> check_surroundings(const BoxRequest& request) {
  TRY_VOID(check_published(request.published));
  constexpr std::string_view kOfAddresses = "0123456789abcdefABCDEF.:,[]";
  const bool is_list = request.resolver.find_first_not_of(kOfAddresses) == std::string::npos;
  if (request.resolver.size() > kMaxResolverBytes || !is_list) {
    return fail(Code::Invalid, "the resolver is ADDRESS[:PORT][,...], at most {} bytes",
                kMaxResolverBytes);
  }
  if (request.cwd && request.cwd->size() > kMaxPathBytes) {
    return fail(Code::Invalid, "cwd: more than {} bytes", kMaxPathBytes);
  }
  return {};
}

}  // namespace

Result<void> check_environment(const std::vector<plan::EnvEntry>& entries) {
  for (const plan::EnvEntry& entry : entries) {
    TRY_VOID(authority::EnvName::parse(entry.name));
    if (entry.value.find('\0') != std::string::npos) {
      return fail(Code::Invalid, "environment variable {}: its value has a zero byte", entry.name);
    }
  }
  return {};
}

std::string owner_of(const BoxRequest& request) {
  const auto found = request.labels.find(std::string(kOwnerLabel));
  return found == request.labels.end() ? "" : found->second;
}

Result<void> check_values(const BoxRequest& request) {
  TRY_VOID(check_labels(request));
  TRY_VOID(check_workspaces(request));
  TRY_VOID(check_environment(request.env));
  TRY_VOID(check_surroundings(request));
  if (!request.policy.name.empty() && !request.policy.document.empty()) {
    return fail(Code::Invalid, "a policy is named or written out, not both");
  }
  const bool has_policy = !request.policy.name.empty() || !request.policy.document.empty();
  if (!has_policy && !request.policy.if_digest.empty()) {
    return fail(Code::Invalid, "if_policy needs a policy");
  }
  // To the kernel's files 0 would mean that there is no limit.
  if (request.cpus_milli && *request.cpus_milli == 0) {
    return fail(Code::Invalid, "a share of the processors is at least 0.001");
  }
  if (request.idle_timeout && request.idle_timeout->count() < 0) {
    return fail(Code::Invalid, "an idle timeout is not negative");
  }
  return {};
}

}  // namespace glovebox::session
