#include "authority/terms.h"
#include "plan/lower.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <variant>

namespace glovebox::plan {
namespace {

using authority::AbsolutePath;
using authority::Effect;
using authority::Rule;
using PathEffects = authority::AuthoritySet::PathEffects;

// Made fresh for each box, or (the last) never there; nothing of the host may be put there.
constexpr std::array<std::string_view, 3> kOwnTrees{"/proc", "/dev", "/sys"};
constexpr std::size_t kMaxPinned = 4096;  // each is a mount

const AbsolutePath* find_file_path(const authority::Capability& capability) {
  if (const auto* read = std::get_if<authority::ReadPath>(&capability)) return &read->path;
  if (const auto* write = std::get_if<authority::WritePath>(&capability)) return &write->path;
  if (const auto* exec = std::get_if<authority::ExecPath>(&capability)) return &exec->path;
  if (const auto* unix = std::get_if<authority::ConnectUnix>(&capability)) return &unix->path;
  return nullptr;
}

// For a name that no rule can spell: the deepest place above it that one can.
AbsolutePath nearest_spelled(std::string path) {
  while (true) {
    auto spelled = AbsolutePath::parse(path);
    if (spelled) return *std::move(spelled);
    path.resize(path.rfind('/') == 0 ? 1 : path.rfind('/'));
  }
}

bool is_own_tree(const std::string& path) {
  return std::ranges::any_of(kOwnTrees,
                             [&](std::string_view tree) { return host::is_within(path, tree); });
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Builds the regions from the top of the tree downwards.
class Regions {
 public:
  Regions(const SandboxSpec& spec, const std::vector<Rule>& rules, const host::HostFacts& facts)
      : spec_(spec), rules_(rules), facts_(facts) {}

  Result<std::vector<Region>> make() {
    // A path sorts before everything below it.
    std::map<std::string, AbsolutePath> places;
    for (const Rule& rule : rules_) {
      const AbsolutePath* path = find_file_path(rule.capability);
      if (path == nullptr) continue;
      TRY_VOID(check_place(rule, path->text()));
      places.emplace(path->text(), *path);
    }
    for (const auto& [name, facts] : spec_.secrets) {
      secrets_.push_back({facts, WorkspaceMode::Read, secret_path(name)});
    }
    for (const Workspace& secret : secrets_) {
      workspaces_.emplace(secret.inside, &secret);
      places.emplace(secret.inside, nearest_spelled(secret.inside));
    }
    for (const Workspace& workspace : spec_.workspaces) {
      TRY_VOID(check_workspace(workspace));
      const std::string& path = workspace.path_inside();
      if (!workspaces_.emplace(path, &workspace).second) {
        return fail(Code::Invalid, "{} is handed in twice", path);
      }
      places.emplace(path, nearest_spelled(path));
    }
    for (const auto& [text, path] : places) TRY_VOID(add(text, path));
    TRY_VOID(pin_parents());
    std::vector<Region> list;
    list.reserve(regions_.size());
    for (auto& [path, region] : regions_) list.push_back(std::move(region));
    return list;
  }

 private:
  Result<void> check_place(const Rule& rule, const std::string& path) const {
    if (path == "/" && rule.effect == Effect::Allow) {
      return fail(Code::Denied,
                  "{}: the root directory cannot be handed into a box; name the directories it "
                  "needs",
                  authority::to_text(rule));
    }
    if (is_own_tree(path) && rule.effect == Effect::Allow) {
      return fail(Code::Denied, "{}: {} is made fresh for every box and cannot be handed in",
                  authority::to_text(rule), path.substr(0, path.find('/', 1)));
    }
    if (rule.effect != Effect::Allow) return {};
    return check_own_below(authority::to_text(rule), path);
  }

  // What is shown at a directory above one of the box's own would hide that, and the host's tree
  // has no place for it.
  static Result<void> check_own_below(const std::string& asked, const std::string& path) {
    for (const std::string_view own : kPrivateTrees) {
      if (path == own || !host::is_within(own, path)) continue;
      return fail(Code::Denied,
                  "{}: {} cannot be handed in as a whole, because {} in it is the box's own; name "
                  "the directories in it that are needed, such as {}/NAME",
                  asked, path, own, path);
    }
    return {};
  }

  Result<void> check_workspace(const Workspace& workspace) const {
    const host::PathFacts& at = workspace.at;
    const bool plain =
        workspace.mode == WorkspaceMode::Read || workspace.mode == WorkspaceMode::Write;
    const bool is_file = at.kind == host::PathKind::File && plain;
    if (at.kind != host::PathKind::Directory && !is_file) {
      return fail(Code::Invalid, "{}: a workspace is a directory", at.path);
    }
    if (workspace.mode == WorkspaceMode::Overlay) TRY_VOID(check_layer(workspace));
    if (workspace.frozen.size() > kMaxFrozen) {
      return fail(Code::Exhausted, "{}: more than {} layers on one another", at.path, kMaxFrozen);
    }
    for (const std::string& path : {at.path, workspace.path_inside()}) {
      if (path == "/" || is_own_tree(path)) {
        return fail(Code::Denied, "{} cannot be a workspace: it is made fresh for every box", path);
      }
    }
    TRY_VOID(check_own_below("workspace " + at.path, workspace.path_inside()));
    return workspace.path_inside() == at.path ? Result<void>() : check_moved(workspace);
  }

  Result<void> check_layer(const Workspace& workspace) const {
    const bool is_image = workspace.backing == LayerBacking::Image;
    const auto kind = is_image ? host::PathKind::File : host::PathKind::Directory;
    if (!workspace.layer || workspace.layer->kind != kind) {
      return fail(Code::Invalid, "{}: an overlay needs a layer", workspace.at.path);
    }
    const bool is_bounded = spec_.authority.budget(authority::BudgetKind::Disk) ||
                            spec_.authority.budget(authority::BudgetKind::Inodes);
    if (is_bounded && workspace.backing == LayerBacking::Directory &&
        !spec_.waived.contains("limit.disk")) {
      return fail(Code::Unsupported,
                  "{}: a disk budget cannot be kept for a layer that is a directory (give it up "
                  "with --waive limit.disk)",
                  workspace.at.path);
    }
    return {};
  }

  // A tree that is shown at another path is there as a whole: rules about its own path, or about
  // what would be below the other one, would not mean what they say.
  Result<void> check_moved(const Workspace& workspace) const {
    const std::string& inside = workspace.inside;
    TRY(const AbsolutePath spelled, AbsolutePath::parse(inside));
    if (spelled.text() != inside) {
      return fail(Code::Invalid, "{} is not a plain absolute path; write {}", inside,
                  spelled.text());
    }
    if (is_system(facts_, inside)) {
      return fail(Code::Denied, "{} cannot be shown at {}: the system is read-only",
                  workspace.at.path, inside);
    }
    for (const Rule& rule : rules_) {
      const AbsolutePath* path = find_file_path(rule.capability);
      if (path == nullptr || rule.effect == Effect::Silent) continue;
      const bool denies =
          rule.effect == Effect::Deny && (host::is_within(path->text(), workspace.at.path) ||
                                          host::is_within(workspace.at.path, path->text()));
      if (denies || host::is_within(path->text(), inside)) {
        return fail(Code::Denied, "{} cannot be shown at {}: {} is about a part of it",
                    workspace.at.path, inside, authority::to_text(rule));
      }
    }
    return {};
  }

  // What holds where the set says nothing: the system can be read, the workspace used.
  Rights ground(const std::string& path) const {
    const Workspace* nearest = nullptr;
    for (const auto& [at, workspace] : workspaces_) {
      if (host::is_within(path, at)) nearest = workspace;  // the deepest comes last
    }
    if (nearest != nullptr) {
      return {.read = true, .write = nearest->mode != WorkspaceMode::Read, .exec = true};
    }
    const bool system = is_system(facts_, path);
    return {.read = system, .exec = system};
  }

  // What may be done at a place. What is readable is executable unless denied: a process that reads
  // a program can run a copy of it.
  Rights rights_at(const std::string& text, const PathEffects& effects) const {
    const auto allowed = [](Effect effect, bool without_rule) {
      return effect == Effect::Allow || (without_rule && effect == Effect::Silent);
    };
    const Rights without_rule = ground(text);
    Rights rights;
    rights.read = allowed(effects.read, without_rule.read);
    rights.write = allowed(effects.write, without_rule.write && rights.read);
    rights.exec = allowed(effects.exec, rights.read);
    rights.connect = allowed(effects.connect, false);
    return rights;
  }

  // The region that a place lies in, above its own.
  const Region* find_outer(const std::string& path) const {
    for (std::size_t end = path.rfind('/'); end != 0; end = path.rfind('/', end - 1)) {
      const auto region = regions_.find(std::string_view(path).substr(0, end));
      if (region != regions_.end()) return &region->second;
    }
    return nullptr;
  }

  // What may be done around a place, before its own rules and its workspace.
  Rights around(const std::string& path) const {
    if (const Region* outer = find_outer(path)) return outer->rights;
    const bool system = is_system(facts_, path);
    return {.read = system, .exec = system};
  }

  const Workspace* find_workspace(const std::string& path) const {
    const auto found = workspaces_.find(path);
    return found == workspaces_.end() ? nullptr : found->second;
  }

  const host::PathFacts* find_facts(const std::string& path) const {
    if (const Workspace* workspace = find_workspace(path)) return &workspace->at;
    const auto found = spec_.paths.find(path);
    return found == spec_.paths.end() ? nullptr : &found->second;
  }

  Result<void> add(const std::string& text, const AbsolutePath& path) {
    if (text == "/") return {};  // a denial there: nothing is in the box but what has its own rule
    if (is_own_tree(text)) return cover_own(text, path);
    const bool system = is_system(facts_, text);
    const Rights outer = around(text);
    const PathEffects effects = spec_.authority.effects_at(path);
    Rights rights = rights_at(text, effects);
    const host::PathFacts* facts = find_facts(text);
    if (facts == nullptr) return check_missing(text, outer, rights);
    TRY_VOID(settle_sockets(*facts, effects.connect, outer, rights));
    const Workspace* workspace = find_workspace(text);
    const bool own_mount = workspace != nullptr && rights.read;
    if (!own_mount && (rights == outer || (rights.none() && outer.none()))) return {};
    TRY_VOID(check_region(*facts, rights));
    const bool less = rights.within(outer);
    if (regions_.size() >= kMaxRegions) {
      return fail(Code::Exhausted, "more than {} places with rules of their own", kMaxRegions);
    }
    Region region{*facts, rights, system && less ? Ownership::Kept : Ownership::Mapped};
    if (own_mount) show_workspace(*workspace, region);
    regions_.emplace(text, std::move(region));
    return {};
  }

  static void show_workspace(const Workspace& workspace, Region& region) {
    if (!workspace.inside.empty()) {
      region.source = workspace.at;
      region.at.path = workspace.inside;
    }
    if (!region.rights.write) return;
    if (workspace.mode == WorkspaceMode::Discard) region.upper = Upper::Memory;
    if (workspace.mode != WorkspaceMode::Overlay) return;
    switch (workspace.backing) {
      case LayerBacking::Directory: region.upper = Upper::Layer; break;
      case LayerBacking::Image: region.upper = Upper::Image; break;
      case LayerBacking::Memory: region.upper = Upper::Handed; break;
    }
    if (region.upper != Upper::Handed) region.layer = workspace.layer;
    region.frozen = workspace.frozen;
  }

  // A socket is connected to or not, whatever else may be done around it. Without the guard a
  // readable tree carries its sockets along.
  Result<void> settle_sockets(const host::PathFacts& at, Effect connect, const Rights& outer,
                              Rights& rights) const {
    if (at.kind == host::PathKind::Socket) {
      if (connect == Effect::Allow) rights = {.connect = true};
      if (connect == Effect::Deny) rights = {};
      if (connect == Effect::Silent && outer.read) rights = outer;
      return {};
    }
    if (!rights.read || !spec_.waived.contains("host-sockets")) return {};
    rights.connect = false;
    if (connect != Effect::Deny) return {};
    return fail(Code::Unsupported,
                "{}: connecting to sockets is denied in a readable tree, which cannot be kept with "
                "--waive host-sockets; deny unix on the sockets themselves",
                at.path);
  }

  // In the box's own /proc and /dev a denied place is covered as a whole.
  Result<void> cover_own(const std::string& text, const AbsolutePath& path) {
    const auto found = spec_.paths.find(text);
    if (found == spec_.paths.end() || host::is_within(text, "/sys")) return {};  // not in the box
    if (spec_.authority.effects_at(path).read != Effect::Deny) {
      return fail(Code::Unsupported, "{}: in the box's own {} only reading can be denied", text,
                  text.substr(0, text.find('/', 1)));
    }
    host::PathFacts at = found->second;
    at.device = at.inode = 0;  // the box's own are not known yet
    regions_.emplace(text, Region{std::move(at), Rights{}, Ownership::Kept});
    return {};
  }

  // The box can rename what lies in it on the host.
  static bool can_rename_in(const Region& region) {
    return region.rights.write && region.upper == Upper::None;
  }

  static bool takes_away(const Region& region, const Region& outer) {
    // What is granted is the mount at this path (egress/rules/socket_guard.h): with a directory
    // above it renamed, another could lie there.
    if (region.rights.connect) return true;
    return !outer.rights.within(region.rights) || region.upper != Upper::None;
  }

  // Each directory once, with the first region below it, so that it is pinned before that one.
  Result<void> pin_parents() {
    std::set<std::string> pinned;
    for (const auto& [path, region] : regions_) {
      const Region* outer = find_outer(path);
      if (outer == nullptr || !can_rename_in(*outer) || !takes_away(region, *outer)) continue;
      collect_parents(path, pinned);
      if (pinned.size() > kMaxPinned) {
        return fail(Code::Exhausted,
                    "more than {} directories lie above denied places in writable trees",
                    kMaxPinned);
      }
    }
    for (const std::string& path : pinned) {
      regions_.lower_bound(path + "/")->second.pinned.push_back(path);
    }
    return {};
  }

  // The directories above a place that are no regions themselves (those are mount points already),
  // up to where the box can rename nothing.
  void collect_parents(const std::string& place, std::set<std::string>& pinned) const {
    std::vector<std::string> between;
    for (std::string path = parent_of(place); path != "/"; path = parent_of(path)) {
      const auto region = regions_.find(path);
      if (region == regions_.end()) {
        between.push_back(path);
        continue;
      }
      if (!can_rename_in(region->second)) return;
      pinned.insert(between.begin(), between.end());
      between.clear();
    }
  }

  static Result<void> check_missing(const std::string& path, const Rights& outer,
                                    const Rights& rights) {
    if (!rights.within(outer)) {
      return fail(Code::NotFound, "{} is granted but does not exist", path);
    }
    if (rights == outer || !outer.write) return {};
    return fail(Code::Unsupported,
                "{} is denied inside a directory that the box may write, but does not exist, so it "
                "cannot be covered: the box could create it (create it first, or grant the entries "
                "of {} one by one)",
                path, parent_of(path));
  }

  static Result<void> check_region(const host::PathFacts& at, const Rights& rights) {
    if (rights.none()) return {};  // a cover goes over anything
    const bool socket = at.kind == host::PathKind::Socket;
    if (socket && (rights.read || rights.write || rights.exec)) {
      return fail(Code::Denied, "{}: a socket is handed in with unix={}, not as a file", at.path,
                  at.path);
    }
    if (!socket && at.kind != host::PathKind::Directory && at.kind != host::PathKind::File) {
      return fail(Code::Denied, "{}: only directories, regular files and sockets can be handed in",
                  at.path);
    }
    if (rights.read || socket) return {};
    if (rights.exec) {
      return fail(Code::Unsupported,
                  "{}: executing without reading cannot be enforced: to execute a file, the kernel "
                  "reads it with the rights of the box (grant reading too, or deny executing)",
                  at.path);
    }
    return fail(Code::Unsupported, "{}: only a socket itself can be handed in with unix=", at.path);
  }

  const SandboxSpec& spec_;
  const std::vector<Rule>& rules_;
  const host::HostFacts& facts_;
  std::vector<Workspace> secrets_;  // as single files that are shown at another path
  std::map<std::string, const Workspace*> workspaces_;  // by their path in the box
  std::map<std::string, Region, std::less<>> regions_;
};

std::string region_text(const Region& region) {
  if (region.rights.none()) return "covered by an empty place";
  if (!region.rights.read) return "the socket is mounted";
  return fmt::format("mounted {}{}", mount_attributes_to_text(mount_attributes(region.rights)),
                     region.rights.connect ? ", with its sockets" : "");
}

// The deepest region that the path lies in. They are in the order of their paths.
const Region* find_nearest(const std::vector<Region>& regions, std::string_view path) {
  const auto path_of = [](const Region& region) { return std::string_view(region.at.path); };
  while (path.size() > 1) {
    const auto found = std::ranges::lower_bound(regions, path, {}, path_of);
    if (found != regions.end() && found->at.path == path) return &*found;
    path = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
  }
  return nullptr;
}

// A denial of the sockets of a tree that can be read.
bool is_kept_by_guard(const Rule& rule, const Region* nearest) {
  return rule.effect == Effect::Deny && nearest != nullptr && nearest->rights.read &&
         !nearest->rights.connect &&
         std::holds_alternative<authority::ConnectUnix>(rule.capability);
}

}  // namespace

bool is_system(const host::HostFacts& facts, std::string_view path) {
  const std::string_view top = path.substr(1, path.find('/', 1) - 1);
  return std::ranges::any_of(facts.system,
                             [&](const host::SystemEntry& entry) { return entry.name == top; });
}

Result<std::vector<Region>> lower_files(const SandboxSpec& spec, const std::vector<Rule>& rules,
                                        const host::HostFacts& facts) {
  return Regions(spec, rules, facts).make();
}

std::string file_rule_enforcement(const Rule& rule, const std::vector<Region>& regions,
                                  const host::HostFacts& facts) {
  const std::string& path = find_file_path(rule.capability)->text();
  const Region* nearest = find_nearest(regions, path);
  if (is_kept_by_guard(rule, nearest)) return "connect broker";
  if (nearest != nullptr && nearest->at.path == path) return region_text(*nearest);
  if (nearest != nullptr) return fmt::format("as {}, {}", nearest->at.path, region_text(*nearest));
  if (is_system(facts, path)) {
    return rule.effect == Effect::Allow ? "in the read-only system" : "not there, and read-only";
  }
  return "not in the box's tree";
}

}  // namespace glovebox::plan
