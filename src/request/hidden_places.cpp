#include "request/hidden_places.h"

#include "authority/terms.h"
#include "base/file.h"
#include "host/path_facts.h"
#include "host/resolve_authority.h"
#include "policy/policy.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <variant>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

using authority::Effect;
using authority::Rule;
using Mode = WorkspaceMode;

bool is_same(const struct stat& left, const struct stat& right) {
  return left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

// No name leads to it, and none ever will.
bool is_gone(const UniqueFd& place) {
  struct stat facts{};
  return ::fstat(place.get(), &facts) == 0 && facts.st_nlink == 0;
}

// Where it is now; empty when it is nowhere any more.
Result<std::string> present_path_of(const UniqueFd& place) {
  if (is_gone(place)) return std::string();
  return path_of(place);
}

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

// What every box sees without a rule (host::HostFacts::system).
bool is_in_system(const std::string& path) {
  constexpr const char* kSystem[] = {"/usr", "/etc",   "/bin",   "/sbin",
                                     "/lib", "/lib32", "/lib64", "/libx32"};
  return std::ranges::any_of(kSystem,
                             [&](const char* tree) { return host::is_within(path, tree); });
}

bool is_shown(const plan::SandboxSpec& spec, const std::string& path) {
  if (effect_at(spec, path, policy::PathUse::Read) == Effect::Deny) return false;
  return is_in_system(path) || is_in_workspace(spec, path, [](Mode) { return true; }) ||
         is_allowed(spec, path, policy::PathUse::Read);
}

// A grant that the caller named is refused by name. What a policy's patterns matched is covered.
Result<void> check_rules(const authority::AuthoritySet& handed, const std::string& own) {
  for (const Rule& rule : handed.rules()) {
    const auto used = policy::find_used_path(rule.capability);
    if (!used || rule.effect != Effect::Allow) continue;
    if (!host::is_within(used->path.text(), own)) continue;
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

// Denying to read a socket does not deny connecting to it.
Result<void> add_denials(const std::string& path, std::vector<Rule>& rules) {
  TRY(const auto place, authority::AbsolutePath::parse(path));
  rules.push_back({Effect::Deny, policy::use_of_path(policy::PathUse::Read, place)});
  rules.push_back({Effect::Deny, policy::use_of_path(policy::PathUse::Connect, place)});
  return {};
}

}  // namespace

Result<void> HiddenPlaces::open(std::vector<HiddenPlace> places, Around around) {
  around_ = around;
  for (HiddenPlace& place : places) {
    auto path = host::resolve_new_path(place.path);
    Known known{place.path, place.path, place.when_missing};
    if (path) {
      known.path = *std::move(path);
    } else if (place.when_missing == WhenMissing::Make) {
      known.problem = std::move(path).error();  // it matters only to a box that would see it
    } else {
      return unexpected(std::move(path).error());
    }
    places_.push_back(std::move(known));
  }
  TRY_VOID(paths());  // what is there now is held from now on
  return {};
}

// What has the name is held, beside all that had it before: a box that may write there can give
// the name to others, and must not make us forget what it was about.
Result<HiddenPlaces::Found> HiddenPlaces::remember(const std::string& name) {
  UniqueFd place(::open(name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!place && (errno == ENOENT || errno == ENOTDIR)) return Found::Nothing;
  struct stat facts{};
  if (!place || ::fstat(place.get(), &facts) != 0) return fail_os(errno, "look at {}", name);
  const bool is_held = std::ranges::any_of(held_, [&](const Held& held) {
    struct stat other{};
    return held.name == name && ::fstat(held.place.get(), &other) == 0 && is_same(facts, other);
  });
  if (is_held) return Found::Something;
  if (held_.size() >= kMostHeld)
    std::erase_if(held_, [](const Held& held) { return is_gone(held.place); });
  if (held_.size() >= kMostHeld) {
    return fail(
        Code::Denied,
        "{}: it was replaced again and again; see what does that, and start the service anew",
        name);
  }
  held_.push_back({name, std::move(place)});
  return Found::Something;
}

Result<std::vector<std::string>> HiddenPlaces::paths() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> paths;
  for (const Known& known : places_) {
    auto found = Found::Something;
    if (known.when_missing != WhenMissing::Make) {
      TRY(found, remember(known.path));
    }
    const bool waits = found == Found::Nothing && known.when_missing == WhenMissing::Wait;
    if (!waits) paths.push_back(known.path);
  }
  for (const Held& held : held_) {
    TRY(std::string now, present_path_of(held.place));
    if (!now.empty() && now != held.name) paths.push_back(std::move(now));
  }
  std::ranges::sort(paths);
  const auto repeated = std::ranges::unique(paths);
  paths.erase(repeated.begin(), repeated.end());
  return paths;
}

Result<void> HiddenPlaces::check_apart(const plan::SandboxSpec& spec,
                                       const std::string& own) const {
  for (const plan::Workspace& place : spec.workspaces) {
    if (host::is_within(place.at.path, own)) {
      return fail(Code::Denied, "{} cannot be handed in: {} is where Glovebox keeps its own state",
                  place.at.path, own);
    }
    const bool stays = place.mode == Mode::Write || place.mode == Mode::Overlay;
    if (around_ == Around::Covered || !stays || !host::is_within(own, place.at.path)) continue;
    return fail(Code::Denied, "{} cannot be handed in: {} in it belongs to the service itself",
                place.at.path, own);
  }
  return {};
}

Result<void> HiddenPlaces::check_workspaces(const plan::SandboxSpec& spec) {
  TRY(const std::vector<std::string> own, paths());
  for (const std::string& path : own) TRY_VOID(check_apart(spec, path));
  return {};
}

Result<void> HiddenPlaces::hide(plan::SandboxSpec& spec, const authority::AuthoritySet& handed,
                                const std::string& shown) {
  for (const Known& known : places_) {
    const auto link = find_changeable_link(spec, known.named);
    if (!link) continue;
    return fail(Code::Denied,
                "{} leads over the link {}, which the box could point elsewhere (name the place "
                "itself in GLOVEBOX_STATE or GLOVEBOX_SECRETS, or hand in less)",
                known.named, *link);
  }
  TRY(const std::vector<std::string> own, paths());
  std::vector<Rule> rules;
  for (const std::string& path : own) {
    TRY_VOID(check_apart(spec, path));
    TRY_VOID(check_rules(handed, path));
    const auto known = std::ranges::find(places_, path, &Known::path);
    const bool is_made = known != places_.end() && known->when_missing == WhenMissing::Make;
    if (is_made) {
      if (!is_shown(spec, path)) continue;
      if (known->problem) return unexpected(*known->problem);
      const bool exists = host::look_up(path).has_value();
      if (!exists && !is_writable(spec, path)) continue;  // and the box cannot make it
      if (!exists) TRY_VOID(make_private_directory(path));
    }
    TRY_VOID(add_denials(path, rules));
  }
  // In one set a deeper rule wins; of two sets that are united, the denial does.
  if (!shown.empty()) {
    TRY(auto place, authority::AbsolutePath::parse(shown));
    rules.push_back({Effect::Allow, authority::ReadPath{std::move(place)}});
  }
  TRY(const auto set, authority::AuthoritySet::from_rules(rules));
  TRY(host::ResolvedAuthority resolved, host::resolve_paths(set));
  spec.authority = spec.authority.unite(resolved.set);
  spec.paths.merge(resolved.paths);
  return {};
}

}  // namespace glovebox::session
