#include "policy/policy.h"

#include "base/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace glovebox::policy {
namespace {

using authority::AbsolutePath;
using authority::Effect;

constexpr std::size_t index(PathUse use) { return static_cast<std::size_t>(use); }

// The uses that a rule speaks about. Granting the strong grants the weak; what takes the weak away
// takes both.
std::vector<PathUse> uses_spoken_of(const PathRule& rule) {
  const bool allows = rule.effect == Effect::Allow;
  if (rule.use == PathUse::Write && allows) return {PathUse::Read, PathUse::Write};
  if (rule.use == PathUse::Read && !allows) return {PathUse::Read, PathUse::Write};
  return {rule.use};
}

// The path itself and those above it, deepest first; "/" last.
std::vector<AbsolutePath> upwards(const AbsolutePath& path) {
  std::vector<AbsolutePath> all;
  std::string text = path.text();
  while (true) {
    auto parsed = AbsolutePath::parse(text.empty() ? "/" : text);
    GLOVEBOX_CHECK(parsed.has_value());
    const bool is_root = parsed->text() == "/";
    all.push_back(*std::move(parsed));
    if (is_root) return all;
    text.resize(text.rfind('/'));
  }
}

// Tells whether a path lies at or below a match of any pattern; each path is looked at once.
class MatchedPaths {
 public:
  explicit MatchedPaths(const std::vector<PathRule>& rules) {
    for (const PathRule& rule : rules) {
      if (rule.pattern.has_wildcards()) patterns_.insert(rule.pattern);
    }
  }

  bool contains(const AbsolutePath& path) {
    const auto [known, is_fresh] = known_.emplace(path, false);
    if (is_fresh) {
      known->second = std::any_of(
          patterns_.begin(), patterns_.end(),
          [&](const PathPattern& pattern) { return pattern.matches_at_or_above(path); });
    }
    return known->second;
  }

 private:
  std::set<PathPattern> patterns_;
  std::map<AbsolutePath, bool> known_;
};

// The rules with wildcards, and the plain rules that matter among them.
std::vector<PathRule> relevant_rules(const Policy& policy) {
  std::vector<PathRule> rules;
  if (!policy.has_patterns()) return rules;
  std::vector<PathRule> plain;
  for (const PathRule& rule : policy.path_rules) {
    (rule.pattern.has_wildcards() ? rules : plain).push_back(rule);
  }
  for (const authority::Rule& rule : policy.authority.rules()) {
    if (rule.effect == Effect::Silent) continue;
    if (auto used = find_used_path(rule.capability)) {
      plain.push_back({PathPattern::exactly(used->path), used->use, rule.effect});
    }
  }
  MatchedPaths matched(policy.path_rules);
  for (PathRule& rule : plain) {
    auto path = AbsolutePath::parse(rule.pattern.text());
    GLOVEBOX_CHECK(path.has_value());
    if (!matched.contains(*path)) continue;
    // The set is what holds: after it was narrowed, a rule it no longer backs is gone here too.
    const Effect holds = policy.authority.decide(use_of_path(rule.use, *std::move(path))).effect;
    if (holds == rule.effect) rules.push_back(std::move(rule));
  }
  return rules;
}

// What the rules at exactly this path, by name or else by wildcard, say about the use.
std::optional<PathRule> find_speaker(const std::vector<PathRule>& rules, const AbsolutePath& place,
                                     PathUse use) {
  std::optional<PathRule> speaker;
  for (const PathRule& rule : rules) {
    const std::vector<PathUse> uses = uses_spoken_of(rule);
    if (std::find(uses.begin(), uses.end(), use) == uses.end()) continue;
    if (!rule.pattern.matches(place)) continue;
    const bool is_plain = !rule.pattern.has_wildcards();
    const bool wins = !speaker || (is_plain && speaker->pattern.has_wildcards()) ||
                      (is_plain != speaker->pattern.has_wildcards() && rule.effect == Effect::Deny);
    if (wins) speaker = rule;
  }
  return speaker;
}

}  // namespace

authority::Capability use_of_path(PathUse use, AbsolutePath path) {
  switch (use) {
    case PathUse::Read: return authority::ReadPath{std::move(path)};
    case PathUse::Write: return authority::WritePath{std::move(path)};
    case PathUse::Exec: return authority::ExecPath{std::move(path)};
    case PathUse::Connect: break;
  }
  return authority::ConnectUnix{std::move(path)};
}

std::optional<UsedPath> find_used_path(const authority::Capability& capability) {
  if (const auto* read = std::get_if<authority::ReadPath>(&capability)) {
    return UsedPath{PathUse::Read, read->path};
  }
  if (const auto* write = std::get_if<authority::WritePath>(&capability)) {
    return UsedPath{PathUse::Write, write->path};
  }
  if (const auto* exec = std::get_if<authority::ExecPath>(&capability)) {
    return UsedPath{PathUse::Exec, exec->path};
  }
  if (const auto* socket = std::get_if<authority::ConnectUnix>(&capability)) {
    return UsedPath{PathUse::Connect, socket->path};
  }
  return std::nullopt;
}

std::string to_text(const PathRule& rule) {
  return fmt::format("{} {}={}", authority::to_text(rule.effect), kPathUseWords.at(index(rule.use)),
                     rule.pattern.text());
}

bool Policy::has_patterns() const {
  return std::any_of(path_rules.begin(), path_rules.end(),
                     [](const PathRule& rule) { return rule.pattern.has_wildcards(); });
}

UseEffects effects_of(const std::vector<PathRule>& rules) {
  UseEffects effects{};
  for (const PathRule& rule : rules) {
    for (const PathUse use : uses_spoken_of(rule)) {
      // The enum's order is Silent, Allow, Deny: the greater holds.
      effects.at(index(use)) = std::max(effects.at(index(use)), rule.effect);
    }
  }
  return effects;
}

UseEffects first_of(const UseEffects& first, const UseEffects& second) {
  UseEffects effects = first;
  for (std::size_t i = 0; i < effects.size(); ++i) {
    if (effects.at(i) == Effect::Silent) effects.at(i) = second.at(i);
  }
  return effects;
}

std::vector<PathRule> rules_for(const UseEffects& effects, const PathPattern& pattern) {
  std::vector<PathRule> rules;
  const auto add = [&](PathUse use) {
    const Effect effect = effects.at(index(use));
    if (effect != Effect::Silent) rules.push_back({pattern, use, effect});
  };
  const bool read_says_all = effects[index(PathUse::Read)] == Effect::Deny;
  const bool write_says_all = effects[index(PathUse::Write)] == Effect::Allow;
  if (!write_says_all) add(PathUse::Read);
  if (!read_says_all) add(PathUse::Write);
  add(PathUse::Exec);
  add(PathUse::Connect);
  return rules;
}

void normalise(Policy& policy) {
  std::map<PathPattern, std::vector<PathRule>> groups;
  for (PathRule& rule : relevant_rules(policy)) groups[rule.pattern].push_back(std::move(rule));
  policy.path_rules.clear();
  for (const auto& [pattern, rules] : groups) {
    for (PathRule& rule : rules_for(effects_of(rules), pattern)) {
      policy.path_rules.push_back(std::move(rule));
    }
  }
  std::sort(policy.path_rules.begin(), policy.path_rules.end());
}

PathDecision decide_path(const Policy& policy, const UsedPath& question) {
  if (policy.has_patterns()) {
    for (const AbsolutePath& place : upwards(question.path)) {
      if (auto speaker = find_speaker(policy.path_rules, place, question.use)) {
        const Effect effect = speaker->effect;
        return {effect, *std::move(speaker)};
      }
    }
  }
  authority::Decision decision = policy.authority.decide(use_of_path(question.use, question.path));
  PathDecision answer{decision.effect, std::nullopt};
  if (decision.rule) answer.rule = *std::move(decision.rule);
  return answer;
}

Effect decide(const Policy& policy, const authority::Capability& question) {
  if (const auto used = find_used_path(question)) return decide_path(policy, *used).effect;
  return policy.authority.decide(question).effect;
}

}  // namespace glovebox::policy
