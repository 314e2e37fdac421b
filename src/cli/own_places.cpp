#include "cli/own_places.h"

#include "authority/terms.h"
#include "cli/layers.h"
#include "host/path_facts.h"
#include "host/resolve_authority.h"
#include "policy/policy.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <variant>
#include <vector>

#include <sys/stat.h>

namespace glovebox::app {
namespace {

using authority::Effect;
using authority::Rule;
using Mode = plan::Workspace::Mode;

// In doubt allowed: for a name that no rule can spell.
Effect effect_at(const plan::SandboxSpec& spec, const std::string& path, policy::PathUse use) {
  auto place = authority::AbsolutePath::parse(path);
  if (!place) return Effect::Allow;
  return spec.authority.decide(policy::use_of_path(use, *std::move(place))).effect;
}

bool is_allowed(const plan::SandboxSpec& spec, const std::string& path, policy::PathUse use) {
  return effect_at(spec, path, use) == Effect::Allow;
}

template <class Condition>
bool is_in_workspace(const plan::SandboxSpec& spec, const std::string& path, Condition condition) {
  return std::ranges::any_of(spec.workspaces, [&](const plan::Workspace& place) {
    return host::is_within(path, place.at.path) && condition(place.mode);
  });
}

bool is_shown(const plan::SandboxSpec& spec, const std::string& path) {
  if (effect_at(spec, path, policy::PathUse::Read) == Effect::Deny) return false;
  return is_in_workspace(spec, path, [](Mode) { return true; }) ||
         is_allowed(spec, path, policy::PathUse::Read);
}

// Whether the box can write there, if only into a layer.
bool is_writable(const plan::SandboxSpec& spec, const std::string& path) {
  return is_in_workspace(spec, path, [](Mode mode) { return mode != Mode::Read; }) ||
         is_allowed(spec, path, policy::PathUse::Write);
}

// Whether the host's own file can be changed there.
bool is_changeable(const plan::SandboxSpec& spec, const std::string& path) {
  return is_in_workspace(spec, path, [](Mode mode) { return mode == Mode::Write; }) ||
         is_allowed(spec, path, policy::PathUse::Write);
}

// The first link on the way that the box could replace. What it leads to is covered; the name would
// lead somewhere else afterwards. A mount cannot lie on a link, so it cannot be pinned.
std::optional<std::string> find_changeable_link(const plan::SandboxSpec& spec,
                                                const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel
  std::vector<std::string> names = host::components(path);
  std::ranges::reverse(names);
  std::filesystem::path at = "/";
  for (int links = 0; !names.empty() && links < kMostLinks;) {
    const std::string name = std::move(names.back());
    names.pop_back();
    if (name == ".") continue;
    if (name == "..") {
      at = at.parent_path();
      continue;
    }
    std::error_code not_a_link;
    const std::filesystem::path target = std::filesystem::read_symlink(at / name, not_a_link);
    if (not_a_link) {
      at /= name;
      continue;
    }
    if (is_changeable(spec, (at / name).string())) return (at / name).string();
    if (target.is_absolute()) at = "/";
    std::vector<std::string> more = host::components(target.string());
    names.insert(names.end(), more.rbegin(), more.rend());
    ++links;
  }
  return std::nullopt;
}

// Nothing in it can be handed in as a whole, or for writing.
Result<void> check_inside(const plan::SandboxSpec& spec, const std::string& own) {
  for (const plan::Workspace& workspace : spec.workspaces) {
    if (!host::is_within(workspace.at.path, own)) continue;
    return fail(Code::Denied, "{} cannot be handed in: {} is where Glovebox keeps its own state",
                workspace.at.path, own);
  }
  for (const Rule& rule : spec.authority.rules()) {
    const auto* write = std::get_if<authority::WritePath>(&rule.capability);
    if (write == nullptr || rule.effect != Effect::Allow) continue;
    if (!host::is_within(write->path.text(), own)) continue;
    return fail(Code::Denied, "{}: {} is where Glovebox keeps its own state",
                authority::to_text(rule), own);
  }
  return {};
}

Result<void> make_private_directory(const std::string& path) {
  std::error_code problem;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), problem);
  if (!problem && (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST)) return {};
  if (!problem) problem = std::error_code(errno, std::generic_category());
  return fail(
      Code::Os,
      "make {}, which is Glovebox's own, before a box that could make it: {} (hand in less, "
      "or set GLOVEBOX_STATE)",
      path, problem.message());
}

Result<void> deny(plan::SandboxSpec& spec, const std::string& path) {
  TRY(auto place, authority::AbsolutePath::parse(path));
  const Rule denial{Effect::Deny, policy::use_of_path(policy::PathUse::Read, std::move(place))};
  TRY(const auto denials, authority::AuthoritySet::from_rules(std::span(&denial, 1)));
  TRY(host::ResolvedAuthority denied, host::resolve_paths(denials));
  spec.authority = spec.authority.unite(denied.set);
  spec.paths.merge(denied.paths);
  return {};
}

Result<void> hide(plan::SandboxSpec& spec, const std::string& named) {
  if (const auto link = find_changeable_link(spec, named)) {
    return fail(Code::Denied,
                "{} leads over the link {}, which the box could point elsewhere (name the place "
                "itself in GLOVEBOX_STATE or GLOVEBOX_SECRETS, or hand in less)",
                named, *link);
  }
  const auto path = host::resolve_new_path(named);
  if (!path) {
    if (!is_shown(spec, named)) return {};
    return unexpected(path.error());
  }
  TRY_VOID(check_inside(spec, *path));
  if (!is_shown(spec, *path)) return {};
  if (!host::look_up(*path)) {
    if (!is_writable(spec, *path)) return {};  // it is not there, and the box cannot make it
    TRY_VOID(make_private_directory(*path));
  }
  return deny(spec, *path);
}

}  // namespace

Result<void> hide_own_places(plan::SandboxSpec& spec) {
  // Without HOME there may be none, and then there is nothing to hide.
  if (const auto state = state_directory()) TRY_VOID(hide(spec, *state));
  if (const auto secrets = secrets_directory()) TRY_VOID(hide(spec, *secrets));
  return {};
}

}  // namespace glovebox::app
