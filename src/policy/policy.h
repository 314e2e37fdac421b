// Policy: what a document grants to one sandbox, as a value.
//
// Nearly all of it is an AuthoritySet. What a set cannot say is kept beside it: rules on paths with
// wildcards, which mean something only against a disk (expand.h), and the few settings that are no
// authority (how many processors, which backend).
//
// Among rules on paths the deepest place that speaks about a use decides. A wildcard rule speaks
// for every path it matches and all beneath. At the same path a rule that names the path itself
// beats one that matches it by wildcard, and among equals Deny wins.
#pragma once

#include "authority/authority_set.h"
#include "authority/backend.h"
#include "authority/capability.h"
#include "authority/workspace_mode.h"
#include "policy/path_pattern.h"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace glovebox::policy {

// Rules with wildcards in one policy. Each is compared with every path that the policy names.
inline constexpr std::size_t kMaxPatterns = 256;

// What is done with a path. Writing implies reading, as everywhere.
enum class PathUse : std::uint8_t { Read, Write, Exec, Connect };
inline constexpr std::array<std::string_view, 4> kPathUseWords{"read", "write", "exec", "unix"};

authority::Capability use_of_path(PathUse use, authority::AbsolutePath path);
// What a capability says about a path, or nothing when it is about something else.
struct UsedPath {
  PathUse use;
  authority::AbsolutePath path;
};
std::optional<UsedPath> find_used_path(const authority::Capability& capability);

// A rule on the paths that a pattern matches. The effect is Allow or Deny.
struct PathRule {
  PathPattern pattern;
  PathUse use;
  authority::Effect effect;

  friend bool operator==(const PathRule&, const PathRule&) = default;
  friend std::strong_ordering operator<=>(const PathRule&, const PathRule&) = default;
};

// "deny read=/srv/*.key".
std::string to_text(const PathRule& rule);

struct Policy {
  std::string name;                   // of the sandbox in its document; empty for a flat document
  std::string description;            // for people; no part of the digest
  authority::AuthoritySet authority;  // budgets too
  // The rules with wildcards. And, once more, those of `authority` that name a path at or below a
  // match: a set drops a rule that repeats the one above it, but here it stands between the two.
  // In normal form (normalise) and sorted.
  std::vector<PathRule> path_rules;
  std::optional<std::uint64_t> cpus_milli;  // 1500: one and a half processors
  std::optional<Backend> backend;
  std::optional<WorkspaceMode> workspace;
  std::set<std::string> waived;

  // Whether any rule has wildcards, so that expand_patterns() has something to do.
  bool has_patterns() const;

  friend bool operator==(const Policy&, const Policy&) = default;
};

// Brings path_rules into normal form: policies that say the same are equal. Everything that makes
// a Policy from parts ends with this.
void normalise(Policy& policy);

// The verdict on one use of one path, with wildcards taken into account, and the rule behind it.
// "Read /srv/x.csv" is judged as if the path were there when the box starts.
struct PathDecision {
  authority::Effect effect = authority::Effect::Silent;
  std::optional<std::variant<authority::Rule, PathRule>> rule;
};
PathDecision decide_path(const Policy& policy, const UsedPath& question);

// The verdict on anything: decide_path() for paths, AuthoritySet::decide() for the rest.
authority::Effect decide(const Policy& policy, const authority::Capability& question);

// What rules on one and the same path come to: effect by use. Silent where none speaks.
using UseEffects = std::array<authority::Effect, kPathUseWords.size()>;
UseEffects effects_of(const std::vector<PathRule>& rules);
// And where `first` has no say, `second` has: a path named beats a path matched.
UseEffects first_of(const UseEffects& first, const UseEffects& second);
// The rules at `pattern` that come to these effects: the fewest.
std::vector<PathRule> rules_for(const UseEffects& effects, const PathPattern& pattern);

}  // namespace glovebox::policy
