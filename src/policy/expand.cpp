#include "policy/expand.h"

#include "base/plain_text.h"

#include <map>
#include <set>
#include <utility>

namespace glovebox::policy {
namespace {

using authority::AbsolutePath;
using authority::Rule;

constexpr std::string_view kAnyDepth = "**";

// Finds the paths that match one pattern. A place is a directory and the components of the pattern
// that are still to be found in it; places are kept in a list, not on the stack, and each is
// visited once, so neither depth nor "**" beside "**" costs more than the directories there are.
class Search {
 public:
  Search(const PathPattern& pattern, Lister& lister, std::size_t& looked_at)
      : components_(pattern.components()),
        text_(pattern.text()),
        lister_(lister),
        looked_at_(looked_at) {}

  Result<std::set<std::string>> run() {
    TRY_VOID(enter("", 0));
    while (!places_.empty()) {
      const Place& place = *places_.back();
      places_.pop_back();
      TRY_VOID(visit(place));
    }
    return std::move(matches_);
  }

 private:
  struct Place {
    std::string directory;  // "" for the root, so that "/" and a name can be added
    std::size_t next;       // the component to be found in it

    friend auto operator<=>(const Place&, const Place&) = default;
  };

  Result<void> enter(std::string directory, std::size_t next) {
    if (directory.size() > AbsolutePath::kMaxBytes) {
      return fail(Code::Exhausted, "pattern {}: a directory lies deeper than a path can name",
                  quoted(text_));
    }
    const auto [place, is_fresh] = visited_.insert({std::move(directory), next});
    if (is_fresh) places_.push_back(&*place);
    return {};
  }

  // "**" as no component at all: what follows it may be found here too.
  Result<void> visit(const Place& place) {
    const std::string& component = components_[place.next];
    if (component != kAnyDepth && !has_wildcard(component)) return visit_by_name(place, component);
    if (component == kAnyDepth) TRY_VOID(enter(place.directory, place.next + 1));
    return visit_by_listing(place, component);
  }

  Result<void> visit_by_name(const Place& place, const std::string& name) {
    TRY_VOID(count(1));
    const std::string path = place.directory + "/" + name;
    TRY(const std::optional<EntryKind> kind, lister_.look_at(path));
    if (!kind) return {};
    if (*kind == EntryKind::Symlink) {
      return fail(Code::Invalid, "pattern {}: {} is a symlink (write the path that it leads to)",
                  quoted(text_), quoted(path));
    }
    return arrive(path, *kind, place.next + 1);
  }

  Result<void> visit_by_listing(const Place& place, const std::string& component) {
    const std::string directory = place.directory.empty() ? "/" : place.directory;
    TRY(const std::vector<DirectoryEntry> entries,
        lister_.list(directory, kMaxEntriesLookedAt - looked_at_));
    TRY_VOID(count(entries.size() + 1));
    for (const DirectoryEntry& entry : entries) {
      if (entry.kind == EntryKind::Symlink) continue;
      const std::string path = place.directory + "/" + entry.name;
      if (component == kAnyDepth) {
        if (entry.kind == EntryKind::Directory) TRY_VOID(enter(path, place.next));
      } else if (component_matches(component, entry.name)) {
        TRY_VOID(arrive(path, entry.kind, place.next + 1));
      }
    }
    return {};
  }

  Result<void> arrive(const std::string& path, EntryKind kind, std::size_t next) {
    if (next < components_.size()) {
      if (kind == EntryKind::Directory) TRY_VOID(enter(path, next));
      return {};
    }
    matches_.insert(path);
    if (matches_.size() > kMaxMatches) {
      return fail(Code::Exhausted,
                  "pattern {}: matches more than {} paths (grant a directory instead)",
                  quoted(text_), kMaxMatches);
    }
    return {};
  }

  Result<void> count(std::size_t entries) {
    looked_at_ += entries;
    if (looked_at_ <= kMaxEntriesLookedAt) return {};
    return fail(Code::Exhausted,
                "pattern {}: more than {} entries to look at (name a deeper directory)",
                quoted(text_), kMaxEntriesLookedAt);
  }

  const std::vector<std::string>& components_;
  const std::string& text_;
  Lister& lister_;
  std::size_t& looked_at_;
  std::set<Place> visited_;
  std::vector<const Place*> places_;
  std::set<std::string> matches_;
};

Result<AbsolutePath> path_of_match(const std::string& match, const PathPattern& pattern) {
  auto path = AbsolutePath::parse(match);
  if (path) return path;
  return fail(Code::Invalid, "pattern {}: it matches {}, which no rule can name (rename the file)",
              quoted(pattern.text()), quoted(match));
}

// The rules at a path that is matched, or named at or below a match.
struct AtPath {
  std::vector<PathRule> named;
  std::vector<PathRule> matched;
};
using Places = std::map<AbsolutePath, AtPath>;

Result<Places> find_places(const Policy& policy, Lister& lister) {
  Places places;
  std::map<PathPattern, std::set<std::string>> found;
  std::size_t looked_at = 0;
  std::size_t matches = 0;
  for (const PathRule& rule : policy.path_rules) {
    if (!rule.pattern.has_wildcards()) {
      TRY(const AbsolutePath path, AbsolutePath::parse(rule.pattern.text()));
      places[path].named.push_back(rule);
      continue;
    }
    if (!found.contains(rule.pattern)) {
      TRY(found[rule.pattern], Search(rule.pattern, lister, looked_at).run());
      matches += found[rule.pattern].size();
      if (matches > kMaxMatches) {
        return fail(Code::Exhausted, "the policy's patterns match more than {} paths together",
                    kMaxMatches);
      }
    }
    for (const std::string& match : found[rule.pattern]) {
      TRY(const AbsolutePath path, path_of_match(match, rule.pattern));
      places[path].matched.push_back(rule);
    }
  }
  return places;
}

}  // namespace

Result<authority::AuthoritySet> expand_patterns(const Policy& policy, Lister& lister) {
  if (!policy.has_patterns()) return policy.authority;
  TRY(const Places places, find_places(policy, lister));
  std::vector<Rule> rules = policy.authority.rules();
  for (const auto& [path, at] : places) {
    const UseEffects effects = first_of(effects_of(at.named), effects_of(at.matched));
    for (const PathRule& rule : rules_for(effects, PathPattern::exactly(path))) {
      rules.push_back({rule.effect, use_of_path(rule.use, path)});
    }
  }
  return authority::AuthoritySet::from_rules(rules);
}

}  // namespace glovebox::policy
