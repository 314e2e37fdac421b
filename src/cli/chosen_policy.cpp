#include "cli/chosen_policy.h"

#include "policy/disk_lister.h"
#include "policy/expand.h"
#include "policy/load.h"
#include "policy/print.h"

#include <algorithm>
#include <array>

namespace glovebox::app {
namespace {

Error one_error(const policy::Diagnostics& problems) {
  std::string text = policy::to_text(problems);
  while (text.ends_with('\n')) text.pop_back();
  return Error{Code::Invalid, 0, fmt::format("--policy: {}", text)};
}

Result<authority::AuthoritySet> expanded(const policy::Policy& chosen) {
  if (!chosen.has_patterns()) return chosen.authority;
  TRY(policy::DiskLister lister, policy::DiskLister::open());
  return policy::expand_patterns(chosen, lister);
}

// The policy's mode is the most that may be asked for, and what is meant when none is named.
Result<void> apply_workspace(const policy::Policy& chosen, const RunOptions& options,
                             plan::SandboxSpec& spec) {
  using Mode = plan::Workspace::Mode;
  if (!chosen.workspace) return {};
  constexpr std::array<Mode, 4> kModes{Mode::Read, Mode::Discard, Mode::Overlay, Mode::Write};
  constexpr std::array<Mode, 3> kOfPolicies{Mode::Read, Mode::Overlay, Mode::Write};
  const Mode most = kOfPolicies.at(static_cast<std::size_t>(*chosen.workspace));
  const auto rank = [&](Mode mode) { return std::ranges::find(kModes, mode) - kModes.begin(); };
  for (std::size_t i = 0; i < spec.workspaces.size(); ++i) {
    Mode& mode = spec.workspaces[i].mode;
    const bool is_bind = i >= options.workspaces.size();
    if (!is_bind && !names_a_mode(options.workspaces[i])) {
      mode = most;
    } else if (rank(mode) > rank(most)) {
      return fail(Code::Denied, "{}: the policy allows no more than {}", spec.workspaces[i].at.path,
                  policy::to_text(*chosen.workspace));
    }
  }
  return {};
}

Result<void> apply_settings(const policy::Policy& chosen, const RunOptions& options,
                            plan::SandboxSpec& spec) {
  if (chosen.backend) {
    const std::string_view name = policy::to_text(*chosen.backend);
    if (!options.backend.empty() && options.backend != name) {
      return fail(Code::Denied, "--backend {}: the policy asks for backend {}", options.backend,
                  name);
    }
    spec.backend = static_cast<plan::Backend>(*chosen.backend);
  }
  if (chosen.cpus_milli) {
    spec.cpus_milli = std::min(spec.cpus_milli.value_or(*chosen.cpus_milli), *chosen.cpus_milli);
  }
  spec.waived.insert(chosen.waived.begin(), chosen.waived.end());
  return apply_workspace(chosen, options, spec);
}

Result<void> check_digest(const RunOptions& options, const std::string& digest) {
  if (options.if_policy.empty() || options.if_policy == digest) return {};
  return fail(Code::Denied, "--if-policy {}: the policy is {}", options.if_policy, digest);
}

}  // namespace

Result<void> apply_policy(const RunOptions& options, plan::SandboxSpec& spec) {
  if (options.policy.empty()) {
    if (options.if_policy.empty()) return {};
    return fail(Code::Invalid, "--if-policy needs --policy");
  }
  const auto loaded = policy::load_policy(options.policy);
  if (!loaded) return tl::unexpected(one_error(loaded.error()));
  const policy::Policy& chosen = loaded->policy;
  TRY(const std::string digest, policy::digest(chosen));
  TRY_VOID(check_digest(options, digest));
  TRY_VOID(apply_settings(chosen, options, spec));
  TRY(const authority::AuthoritySet set, expanded(chosen));
  TRY(host::ResolvedAuthority resolved, host::resolve_paths(set));
  spec.authority = resolved.set.unite(spec.authority);
  spec.paths.merge(resolved.paths);
  spec.policy = plan::PolicyMark{options.policy, digest};
  return {};
}

}  // namespace glovebox::app
