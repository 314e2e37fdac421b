#include "mcp/profile_request.h"

#include "authority/terms.h"
#include "host/path_facts.h"

#include <algorithm>
#include <array>
#include <set>

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
    std::ranges::sort(entries_);
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

  bool is_writable_around(const std::string& path) const {
    const PathEntry* around = find_entry(path.substr(0, path.rfind('/')));
    return around == nullptr ? writes_all() : around->access == Access::Write;
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
        return is_writable_around(entry.path) ? add_rule(Effect::Deny, "write", entry.path)
                                              : Result<void>();
      case Access::Deny:
        if (is_writable_around(entry.path)) TRY_VOID(hold_if_missing(entry.path, is_there));
        return add_rule(Effect::Deny, "read", entry.path);
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

  Result<void> protect_names() {
    std::set<std::string> roots;
    for (const PathEntry& each : entries_) {
      if (each.access == Access::Write) roots.insert(each.path);
    }
    const std::string cwd = host_.resolve(profile_.cwd);
    const PathEntry* at_cwd = find_entry(cwd);
    if (at_cwd == nullptr && writes_all() && cwd != "/") roots.insert(cwd);
    for (const std::string& root : roots) {
      for (const std::string_view name : kProtectedNames) {
        const std::string path = fmt::format("{}/{}", root, name);
        const PathEntry* holding = find_entry(path);
        // Somebody said something else about this very name, or denied what is above it.
        if (holding != nullptr && holding->path == path) continue;
        if (host_.look_at(root) == HostView::Kind::Other) continue;
        TRY_VOID(hold_if_missing(path, is_there(path)));
        TRY_VOID(add_rule(Effect::Allow, "read", path));
        TRY_VOID(add_rule(Effect::Deny, "write", path));
      }
    }
    return {};
  }

  Result<void> add_globs() {
    for (const std::string& glob : profile_.deny_globs) {
      TRY(const std::vector<std::string> matched, host_.matches(glob));
      for (const std::string& path : matched) {
        const PathEntry* holding = find_entry(path);
        if (holding != nullptr && holding->path == path && holding->access != Access::Deny) {
          continue;  // named itself, which is more specific than any pattern
        }
        TRY_VOID(add_rule(Effect::Deny, "read", path));
      }
    }
    return {};
  }

  // Whether the profile or the command line grants a place by name, or something inside of it.
  bool is_named(const std::string& path) const {
    const auto names = [&](const std::string& other) { return host::is_within(other, path); };
    for (const PathEntry& each : entries_) {
      if (each.access != Access::Deny && names(each.path)) return true;
    }
    for (const Rule& rule : extra_.rules) {
      if (rule.effect != Effect::Allow) continue;
      if (const auto* read = std::get_if<authority::ReadPath>(&rule.capability)) {
        if (names(read->path.text())) return true;
      }
      if (const auto* write = std::get_if<authority::WritePath>(&rule.capability)) {
        if (names(write->path.text())) return true;
      }
    }
    return false;
  }

  Result<void> cover(const std::string& path) {
    const auto found = host_.look_at(path);
    if (!found) return {};
    const std::string place = host_.resolve(path);
    // A workspace that lies in such a place would lose its own ground.
    if (is_named(place) || host::is_within(host_.resolve(profile_.cwd), place)) return {};
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
    place.mode = is_written ? session::WorkspaceMode::Write : session::WorkspaceMode::Read;
    order_.request.workspaces.push_back(std::move(place));
  }

  const Profile& profile_;
  const ExtraTerms& extra_;
  const HostView& host_;
  std::vector<PathEntry> entries_;  // with their links resolved
  std::vector<Rule> rules_;
  BoxOrder order_;
};

}  // namespace

Result<BoxOrder> make_order(const Profile& profile, const ExtraTerms& extra, const HostView& host) {
  return OrderMaker(profile, extra, host).make();
}

}  // namespace glovebox::mcp
