#include "mcp/profile/profile_to_request.h"

#include "authority/terms.h"
#include "host/path_facts.h"
#include "mcp/profile/git_places.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>

namespace glovebox::mcp {
namespace {

using authority::AbsolutePath;
using authority::Effect;
using authority::Rule;

// A box has these of its own, or none.
constexpr std::array<std::string_view, 6> kNotHandedIn{"proc", "dev", "sys",
                                                       "run",  "tmp", "lost+found"};
// Directories of which a box has a part of its own, so that the others are handed in one by one;
// of /var also without the places where services keep their sockets.
struct SharedParent {
  std::string_view name;
  std::vector<std::string_view> left_out;
};
const std::array<SharedParent, 2> kSharedParents{
    {{"home", {"box"}}, {"var", {"run", "lock", "tmp", "spool"}}}};
// Below the home directory: keys, tokens, and the sockets of agents that hold them.
constexpr std::array<std::string_view, 16> kPrivatePlaces{
    ".ssh",           ".gnupg", ".aws",         ".azure",           ".config/gcloud",
    ".config/gh",     ".kube",  ".docker",      ".netrc",           ".git-credentials",
    ".pypirc",        ".npmrc", ".vault-token", ".codex/auth.json", ".claude/.credentials.json",
    ".password-store"};

bool is_in_one_of(std::string_view path, std::span<const std::string_view> places) {
  return std::ranges::any_of(places,
                             [&](std::string_view each) { return host::is_within(path, each); });
}

// Nothing of the host can be handed in there.
bool is_made_fresh(std::string_view path) {
  constexpr std::array<std::string_view, 3> kFresh{"/proc", "/dev", "/sys"};
  return is_in_one_of(path, kFresh);
}

// A box has these of its own.
bool is_own_place(std::string_view path) {
  constexpr std::array<std::string_view, 4> kOwn{"/run", "/tmp", "/var/tmp", "/home/box"};
  return is_made_fresh(path) || is_in_one_of(path, kOwn);
}

bool is_one_of(auto& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

class OrderMaker {
 public:
  OrderMaker(const Profile& profile, const ExtraTerms& extra, const HostView& host)
      : profile_(profile), extra_(extra), host_(host) {}

  Result<BoxOrder> make() {
    for (const PathEntry& each : profile_.entries) {
      entries_.push_back({host_.resolve(each.path), each.access});
    }
    TRY_VOID(read_globs());
    std::ranges::sort(entries_);
    collect_granted();
    for (const PathEntry& each : profile_.entries) {
      if (each.access != Access::Write) TRY_VOID(check_links(each.path));
    }
    for (const DenyGlob& glob : globs_) TRY_VOID(check_links(glob.root()));
    TRY_VOID(add_ground());
    for (const PathEntry& each : entries_) TRY_VOID(add_entry(each));
    if (profile_.reach != Reach::FullAccess) TRY_VOID(protect_names());
    TRY_VOID(add_globs());
    if (profile_.reach == Reach::ReadAll || profile_.reach == Reach::WriteAll) {
      TRY_VOID(cover_private_places());
    }
    rules_.insert(rules_.end(), extra_.rules.begin(), extra_.rules.end());
    TRY(order_.request.handed, authority::AuthoritySet::from_rules(rules_));
    TRY_VOID(add_network());
    add_workspace();
    order_.request.policy = extra_.policy;
    order_.request.idle_timeout = std::chrono::milliseconds(0);
    return std::move(order_);
  }

 private:
  bool writes_all() const {
    return profile_.reach == Reach::WriteAll || profile_.reach == Reach::FullAccess;
  }

  Result<void> add_rule(Effect effect, std::string_view word, const std::string& path) {
    TRY(authority::Capability capability, authority::parse_term(word, path));
    rules_.push_back({effect, std::move(capability)});
    return {};
  }

  Result<void> add_ground() {
    if (profile_.reach == Reach::Nothing || profile_.reach == Reach::System) return {};
    const std::vector<std::string> system = host_.system();
    const char* word = writes_all() ? "write" : "read";
    for (const std::string& name : host_.directories("/")) {
      if (is_one_of(kNotHandedIn, name) || is_one_of(system, name)) continue;
      const auto shared = std::ranges::find(kSharedParents, name, &SharedParent::name);
      if (shared == kSharedParents.end()) {
        TRY_VOID(add_rule(Effect::Allow, word, "/" + name));
        continue;
      }
      for (const std::string& below : host_.directories("/" + name)) {
        if (is_one_of(shared->left_out, below)) continue;
        TRY_VOID(add_rule(Effect::Allow, word, fmt::format("/{}/{}", name, below)));
      }
    }
    return {};
  }

  // The entry that holds at a path; nothing where only the ground does.
  const PathEntry* find_entry(std::string_view path) const {
    const PathEntry* deepest = nullptr;
    for (const PathEntry& each : entries_) {
      if (!host::is_within(path, each.path)) continue;
      if (deepest == nullptr || each.path.size() >= deepest->path.size()) deepest = &each;
    }
    return deepest;
  }

  bool is_writable(std::string_view path) const {
    const PathEntry* holding = find_entry(path);
    return holding == nullptr ? writes_all() : holding->access == Access::Write;
  }

  bool is_writable_around(const std::string& path) const {
    return is_writable(std::string_view(path).substr(0, path.rfind('/')));
  }

  // A mount lies on what a link leads to. The link itself could be replaced by the box, and from
  // then on the name would lead somewhere else.
  Result<void> check_links(const std::string& path) const {
    for (std::size_t slash = 0; slash != std::string::npos;) {
      const std::size_t next = path.find('/', slash + 1);
      const std::string name = path.substr(slash, next - slash);
      const std::string above = host_.resolve(slash == 0 ? "/" : path.substr(0, slash));
      const std::string place = (above == "/" ? "" : above) + name;
      if (is_writable(above) && host_.is_link(place)) {
        return fail(Code::Unsupported,
                    "cannot enforce sandbox read-only or denied path {}: {} is a symbolic link "
                    "that the box could replace (put what it leads to in its place)",
                    path, place);
      }
      slash = next;
    }
    return {};
  }

  Result<void> keep_from_writing(const std::string& path) {
    order_.covered.push_back(path);
    return add_rule(Effect::Deny, "write", path);
  }

  // The box's own places have nothing of the host but what is handed in.
  bool is_in_the_box(const std::string& path) const {
    return !is_own_place(path) || std::ranges::any_of(granted_, [&](const std::string& each) {
      return host::is_within(path, each);
    });
  }

  Result<void> deny(const std::string& path) {
    if (!is_in_the_box(path)) return {};
    order_.covered.push_back(path);
    TRY_VOID(add_rule(Effect::Deny, "write", path));
    return add_rule(Effect::Deny, "read", path);
  }

  bool is_there(const std::string& path) const {
    return host_.look_at(path).has_value() && !host_.is_placeholder(path);
  }

  Result<void> add_entry(const PathEntry& entry) {
    const bool is_there = this->is_there(entry.path);
    switch (entry.access) {
      case Access::Write:
        if (!is_there) order_.missing_roots.push_back(entry.path);
        return add_rule(Effect::Allow, "write", entry.path);
      case Access::Read:
        if (!is_there && !is_writable_around(entry.path)) return {};  // nothing to read
        TRY_VOID(hold_if_missing(entry.path, is_there));
        TRY_VOID(add_rule(Effect::Allow, "read", entry.path));
        return is_writable_around(entry.path) ? keep_from_writing(entry.path) : Result<void>();
      case Access::Deny:
        if (is_writable_around(entry.path)) TRY_VOID(hold_if_missing(entry.path, is_there));
        return deny(entry.path);
    }
    return fail(Code::Invalid, "{}: an unknown access", entry.path);
  }

  // A name that the box must not make is taken on the host for as long as the box lives. Only the
  // last part of a path can be: directories above it that are missing too would stay behind.
  Result<void> hold_if_missing(const std::string& path, bool is_there) {
    if (is_there || !is_writable_around(path)) return {};
    const std::string above = path.substr(0, path.rfind('/'));
    const bool will_be_made =
        std::ranges::find(order_.missing_roots, above) != order_.missing_roots.end();
    if (!will_be_made && host_.look_at(above) != HostView::Kind::Directory) {
      return fail(
          Code::Unsupported,
          "cannot enforce sandbox read-only or denied path {}: neither it nor {} exists, and "
          "the box may write above them, so it could create both (create {} first)",
          path, above, above);
    }
    order_.held_names.push_back(path);
    return {};
  }

  std::set<std::string> writable_roots() const {
    std::set<std::string> roots;
    for (const PathEntry& each : entries_) {
      if (each.access == Access::Write && host_.look_at(each.path) != HostView::Kind::Other) {
        roots.insert(each.path);
      }
    }
    const std::string cwd = host_.resolve(profile_.cwd);
    if (find_entry(cwd) == nullptr && writes_all() && cwd != "/") roots.insert(cwd);
    return roots;
  }

  Result<void> protect_names() {
    for (const std::string& root : writable_roots()) {
      for (const std::string_view name : kProtectedNames) {
        const std::string path = fmt::format("{}/{}", root, name);
        const PathEntry* holding = find_entry(path);
        const bool is_named = holding != nullptr && holding->path == path;
        if (is_named && holding->access != Access::Read) continue;  // opened, or covered anyway
        if (!is_named) TRY_VOID(protect(path));
        if (name == ".git") TRY_VOID(protect_git_places(path));
      }
    }
    return {};
  }

  Result<void> protect(const std::string& path) {
    TRY_VOID(check_links(path));
    TRY_VOID(hold_if_missing(path, is_there(path)));
    TRY_VOID(add_rule(Effect::Allow, "read", path));
    return keep_from_writing(path);
  }

  // What git runs for this tree may lie elsewhere, where the box may write.
  Result<void> protect_git_places(const std::string& dot_git) {
    TRY(const std::vector<std::string> places, find_git_places(dot_git, host_));
    for (const std::string& named : places) {
      const std::string place = host_.resolve(named);
      if (!is_writable(place)) continue;
      if (place.find("/../") != std::string::npos || would_close_a_root(place)) {
        return fail(Code::Unsupported,
                    "cannot protect the hooks and the configuration of git: {} leads to {}, which "
                    "is all that the box may write",
                    dot_git, named);
      }
      TRY_VOID(check_links(named));
      TRY_VOID(protect(place));
    }
    return {};
  }

  // A root that an entry names keeps its own rights below a place that is protected.
  bool would_close_a_root(const std::string& place) const {
    return std::ranges::any_of(writable_roots(), [&](const std::string& root) {
      const PathEntry* entry = find_entry(root);
      return root == place || (entry == nullptr && host::is_within(root, place));
    });
  }

  // Where clients put a path in front of what a person wrote.
  std::vector<std::string> literal_places() const {
    std::vector<std::string> places{profile_.cwd};
    for (const PathEntry& each : profile_.entries) places.push_back(each.path);
    return places;
  }

  // A pattern without wildcards denies what it names, as an entry does.
  Result<void> read_globs() {
    for (const std::string& pattern : profile_.deny_globs) {
      TRY(DenyGlob glob, DenyGlob::parse(pattern, literal_places()));
      TRY_VOID(check_braces(pattern, glob));
      if (!glob.has_wildcards()) {
        TRY(const AbsolutePath path, AbsolutePath::parse(glob.root()));
        entries_.push_back({host_.resolve(path.text()), Access::Deny});
      }
      globs_.push_back(std::move(glob));
    }
    return {};
  }

  Result<void> check_braces(const std::string& pattern, const DenyGlob& glob) const {
    if (!glob.has_braces_in_root() || host_.look_at(glob.root())) return {};
    return fail(Code::Unsupported,
                "cannot enforce deny glob '{}': braces before the first wildcard are taken by the "
                "letter, and there is no {} (write a pattern for each)",
                pattern, glob.root());
  }

  // A pattern denies in all cases, whatever is granted by name: as in Codex.
  Result<void> add_globs() {
    std::vector<std::string> kept = granted_;
    kept.push_back(host_.resolve(profile_.cwd));
    for (const DenyGlob& glob : globs_) {
      const std::string root = host_.resolve(glob.root());
      if (!glob.has_wildcards() || is_made_fresh(root)) continue;
      auto matched = host_.matches(glob, root, kept);
      if (!matched) {
        return fail(matched.error().code, "cannot enforce deny glob below {}: {}", glob.root(),
                    matched.error().message);
      }
      for (const std::string& path : *matched) {
        // A held name is empty and read-only; the next box will find it missing.
        if (!host_.is_placeholder(path)) TRY_VOID(deny(path));
      }
    }
    return {};
  }

  // What the profile and the command line grant by name.
  void collect_granted() {
    for (const PathEntry& each : entries_) {
      if (each.access != Access::Deny) granted_.push_back(each.path);
    }
    for (const Rule& rule : extra_.rules) {
      if (rule.effect != Effect::Allow) continue;
      if (const auto* read = std::get_if<authority::ReadPath>(&rule.capability)) {
        granted_.push_back(read->path.text());
      }
      if (const auto* write = std::get_if<authority::WritePath>(&rule.capability)) {
        granted_.push_back(write->path.text());
      }
    }
  }

  // Whether a place is granted by name, or something inside of it.
  bool is_named(const std::string& path) const {
    return std::ranges::any_of(
        granted_, [&](const std::string& each) { return host::is_within(each, path); });
  }

  Result<void> cover(const std::string& path) {
    const auto found = host_.look_at(path);
    if (!found) return {};
    const std::string place = host_.resolve(path);
    // A workspace that lies in such a place would lose its own ground.
    if (is_named(place) || host::is_within(host_.resolve(profile_.cwd), place)) return {};
    order_.covered.push_back(place);
    return add_rule(Effect::Deny, "read", place);
  }

  Result<void> cover_private_places() {
    const std::string home = host_.home();
    if (!home.empty() && home != "/") {
      for (const std::string_view each : kPrivatePlaces) {
        TRY_VOID(cover(fmt::format("{}/{}", home, each)));
      }
    }
    const std::string agent = host_.variable("SSH_AUTH_SOCK");
    return agent.starts_with('/') ? cover(agent) : Result<void>();
  }

  Result<void> add_network() {
    if (profile_.network == Network::Off) return {};
    std::vector<Rule> rules;
    const auto add = [&](Effect effect, const std::string& host) -> Result<void> {
      TRY(authority::Capability connect, authority::parse_term("connect", host + ":*"));
      rules.push_back({effect, std::move(connect)});
      if (host == "*" && effect == Effect::Deny) return {};
      TRY(authority::Capability resolve, authority::parse_term("resolve", host));
      rules.push_back({effect, std::move(resolve)});
      return {};
    };
    const auto add_all = [&](Effect effect, const std::vector<std::string>& list) -> Result<void> {
      for (const std::string& each : list) {
        if (!each.starts_with("**.")) {
          TRY_VOID(add(effect, each));
          continue;
        }
        TRY_VOID(add(effect, each.substr(1)));
        TRY_VOID(add(effect, each.substr(3)));
      }
      return {};
    };
    if (profile_.allowed_domains.empty() && profile_.denied_domains.empty()) {
      TRY_VOID(add(Effect::Allow, "*"));
    }
    TRY_VOID(add_all(Effect::Allow, profile_.allowed_domains));
    TRY_VOID(add_all(Effect::Deny, profile_.denied_domains));
    TRY(order_.network, authority::AuthoritySet::from_rules(rules));
    order_.request.handed = order_.request.handed.unite(order_.network);
    return {};
  }

  // Runs start in the directory of the call if the box may read it at all.
  void add_workspace() {
    const std::string cwd = host_.resolve(profile_.cwd);
    if (cwd == "/") return;
    const PathEntry* entry = find_entry(cwd);
    const bool is_read =
        entry == nullptr ? profile_.reach >= Reach::ReadAll : entry->access != Access::Deny;
    if (!is_read) return;
    const bool is_written = entry == nullptr ? writes_all() : entry->access == Access::Write;
    session::WorkspaceRequest place;
    place.path = cwd;
    place.mode = is_written ? WorkspaceMode::Write : WorkspaceMode::Read;
    order_.request.workspaces.push_back(std::move(place));
  }

  const Profile& profile_;
  const ExtraTerms& extra_;
  const HostView& host_;
  std::vector<PathEntry> entries_;  // with their links resolved
  std::vector<DenyGlob> globs_;
  std::vector<std::string> granted_;
  std::vector<Rule> rules_;
  BoxOrder order_;
};

}  // namespace

Result<BoxOrder> make_order(const Profile& profile, const ExtraTerms& extra, const HostView& host) {
  return OrderMaker(profile, extra, host).make();
}

std::vector<CoveredPlace> look_at_covered(const BoxOrder& order, const HostView& host) {
  std::vector<CoveredPlace> places;
  for (const std::string& path : order.covered) places.push_back({path, host.identify(path)});
  std::ranges::sort(places);
  return places;
}

Result<bool> is_still_covered(const Profile& profile, const ExtraTerms& extra, const HostView& host,
                              const std::vector<CoveredPlace>& covered) {
  TRY(const BoxOrder order, make_order(profile, extra, host));
  return std::ranges::includes(covered, look_at_covered(order, host));
}

}  // namespace glovebox::mcp
