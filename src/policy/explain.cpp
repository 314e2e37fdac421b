#include "policy/explain.h"

#include "authority/placement.h"
#include "authority/terms.h"
#include "base/plain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace glovebox::policy {
namespace {

using authority::AuthoritySet;
using authority::Capability;
using authority::Effect;
using authority::Rule;

std::string term_text(const Capability& capability) {
  return one_line(authority::to_text(capability));
}

// How specific a rule is: the depth of its place, then how narrow its range of ports.
struct Specificity {
  std::size_t depth = 0;
  std::uint32_t breadth = 0;

  bool beats(const Specificity& other) const {
    return depth != other.depth ? depth > other.depth : breadth < other.breadth;
  }
};

Specificity specificity_of(const Rule& rule) {
  Specificity most;
  for (const authority::Place& place : authority::places_of(rule)) {
    const Specificity here{place.clause.key.size(), place.clause.breadth};
    if (here.beats(most) || most.breadth == 0) most = here;
  }
  return most;
}

// Whether the rule alone gives the question this effect.
bool gives(const Rule& rule, const Capability& question, Effect effect) {
  const auto alone = AuthoritySet::from_rules(std::array{rule});
  return alone && alone->decide(question).effect == effect;
}

// The plain line that decides. A set gives its verdict by the most specific rule, so of the lines
// that would give this verdict alone, the most specific is the one.
const SourceRule* find_plain_source(const CompiledPolicy& policy, const Capability& question,
                                    Effect effect) {
  const SourceRule* best = nullptr;
  Specificity most;
  for (const SourceRule& source : policy.sources) {
    const auto* rule = std::get_if<Rule>(&source.value);
    if (rule == nullptr || rule->effect != effect || !gives(*rule, question, effect)) continue;
    const Specificity here = specificity_of(*rule);
    if (best != nullptr && !here.beats(most)) continue;
    best = &source;
    most = here;
  }
  return best;
}

// The line that a rule with wildcards, in normal form, comes from: "allow write" may stand for
// lines that say "read" and "write".
const SourceRule* find_pattern_source(const CompiledPolicy& policy, const PathRule& rule) {
  const SourceRule* best = nullptr;
  for (const SourceRule& source : policy.sources) {
    const auto* written = std::get_if<PathRule>(&source.value);
    if (written == nullptr || written->pattern != rule.pattern) continue;
    if (written->effect != rule.effect) continue;
    if (best == nullptr || written->use == rule.use) best = &source;
  }
  return best;
}

void set_source(Explanation& answer, const CompiledPolicy& policy, const SourceRule* source) {
  if (source == nullptr) return;
  answer.rule = std::visit([](const auto& rule) { return to_text(rule); }, source->value);
  answer.where = where_of(policy.file, source->position);
}

void explain_path(Explanation& answer, const CompiledPolicy& policy, const UsedPath& used) {
  const PathDecision decision = decide_path(policy.policy, used);
  answer.effect = decision.effect;
  if (!decision.rule) return;
  answer.rule = std::visit([](const auto& rule) { return to_text(rule); }, *decision.rule);
  const auto* pattern = std::get_if<PathRule>(&*decision.rule);
  if (pattern != nullptr && pattern->pattern.has_wildcards()) {
    set_source(answer, policy, find_pattern_source(policy, *pattern));
  } else {
    set_source(answer, policy, find_plain_source(policy, answer.question, decision.effect));
  }
}

void explain_budget(Explanation& answer, const CompiledPolicy& policy,
                    const authority::BudgetTerm& asked) {
  const authority::Decision decision = policy.policy.authority.decide(answer.question);
  answer.effect = decision.effect;
  if (!decision.rule) return;
  answer.rule = term_text(decision.rule->capability);
  const auto source = policy.budget_sources.find(asked.kind);
  if (source != policy.budget_sources.end()) answer.where = where_of(policy.file, source->second);
}

void explain_other(Explanation& answer, const CompiledPolicy& policy) {
  const authority::Decision decision = policy.policy.authority.decide(answer.question);
  answer.effect = decision.effect;
  if (!decision.rule) return;
  answer.rule = authority::to_text(*decision.rule);
  set_source(answer, policy, find_plain_source(policy, answer.question, decision.effect));
}

std::string remedy_for(const Explanation& answer) {
  const std::string term = term_text(answer.question);
  switch (answer.effect) {
    case Effect::Allow: return {};
    case Effect::Silent: return fmt::format("grant it with 'allow {}'", term);
    case Effect::Deny: break;
  }
  if (authority::find_budget(answer.question)) return "the policy has to set a larger limit";
  return fmt::format(
      "the policy itself has to change: remove that rule, or grant a narrower place than it "
      "denies, "
      "such as 'allow {}'; nothing handed in beside the policy lifts a denial",
      term);
}

// ---- Difference.

std::string cpus_text(const std::optional<std::uint64_t>& milli) {
  return milli ? fmt::format("{}.{:03}", *milli / 1000, *milli % 1000) : "no limit";
}

void compare_settings(const Policy& a, const Policy& b, std::vector<std::string>& out) {
  if (a.cpus_milli && (!b.cpus_milli || *b.cpus_milli > *a.cpus_milli)) {
    out.push_back(
        fmt::format("cpus: {} instead of {}", cpus_text(b.cpus_milli), cpus_text(a.cpus_milli)));
  }
  for (const std::string& name : b.waived) {
    if (!a.waived.contains(name)) out.push_back(fmt::format("waives {}", name));
  }
  if (b.workspace && (!a.workspace || *b.workspace > *a.workspace)) {
    out.push_back(fmt::format("workspace: {} instead of {}", to_text(*b.workspace),
                              a.workspace ? to_text(*a.workspace) : "what the caller says"));
  }
  if (a.backend != b.backend) {
    const auto name = [](const std::optional<Backend>& backend) {
      return backend ? to_text(*backend) : std::string_view("what the caller says");
    };
    out.push_back(fmt::format("backend: {} instead of {}", name(b.backend), name(a.backend)));
  }
}

// Whether `other` gives the path of a plain rule the same answer, so that the rule adds nothing.
bool is_same_in(const Policy& other, const PathRule& rule) {
  auto path = authority::AbsolutePath::parse(rule.pattern.text());
  GLOVEBOX_CHECK(path.has_value());
  const Effect effect = decide_path(other, {rule.use, *std::move(path)}).effect;
  return (effect == Effect::Allow) == (rule.effect == Effect::Allow);
}

std::vector<PathRule> only_in(const Policy& one, const Policy& other, Effect effect) {
  std::vector<PathRule> rules;
  for (const PathRule& rule : one.path_rules) {
    if (rule.effect != effect) continue;
    const bool is_in_both =
        std::find(other.path_rules.begin(), other.path_rules.end(), rule) != other.path_rules.end();
    if (is_in_both || (!rule.pattern.has_wildcards() && is_same_in(other, rule))) continue;
    rules.push_back(rule);
  }
  return rules;
}

}  // namespace

Explanation explain(const CompiledPolicy& policy, const Capability& question) {
  Explanation answer{question, Effect::Silent, std::nullopt, std::nullopt, {}};
  if (const auto used = find_used_path(question)) {
    explain_path(answer, policy, *used);
  } else if (const auto budget = authority::find_budget(question)) {
    explain_budget(answer, policy, *budget);
  } else {
    explain_other(answer, policy);
  }
  answer.remedy = remedy_for(answer);
  return answer;
}

std::string to_text(const Explanation& explanation) {
  const std::string_view verdict = explanation.effect == Effect::Allow  ? "allowed"
                                   : explanation.effect == Effect::Deny ? "denied"
                                                                        : "not granted";
  std::string text = fmt::format("{}: {}", term_text(explanation.question), verdict);
  if (explanation.rule) {
    text += fmt::format(" by '{}'", *explanation.rule);
    if (explanation.where) text += fmt::format(" ({})", to_text(*explanation.where));
  } else if (explanation.effect == Effect::Allow) {
    text += ": the policy sets no limit";
  } else {
    text += ": no rule speaks of it";
  }
  text += '\n';
  if (!explanation.remedy.empty()) text += fmt::format("  {}\n", explanation.remedy);
  return text;
}

bool PolicyDifference::empty() const {
  return authority.empty() && granted.empty() && no_longer_denied.empty() && settings.empty();
}

PolicyDifference difference(const Policy& a, const Policy& b) {
  PolicyDifference result;
  result.authority = b.authority.minus(a.authority);
  result.granted = only_in(b, a, Effect::Allow);
  result.no_longer_denied = only_in(a, b, Effect::Deny);
  compare_settings(a, b, result.settings);
  return result;
}

std::string to_text(const PolicyDifference& difference) {
  std::string text = authority::to_text(difference.authority);
  for (const PathRule& rule : difference.granted) text += to_text(rule) + "\n";
  for (const PathRule& rule : difference.no_longer_denied) {
    text += fmt::format("no longer: {}\n", to_text(rule));
  }
  for (const std::string& setting : difference.settings) text += setting + "\n";
  return text;
}

}  // namespace glovebox::policy
