#include "authority/authority_set.h"

#include "authority/terms.h"

#include <algorithm>
#include <set>
#include <utility>

namespace glovebox::authority {
namespace {

// ---- Joins of two verdicts. The enum's order is Silent, Allow, Deny.

Effect joined_by_unite(Effect left, Effect right) { return std::max(left, right); }

Effect joined_by_attenuate(Effect left, Effect right) {
  if (left == Effect::Deny || right == Effect::Deny) return Effect::Deny;
  return std::min(left, right);
}

Effect joined_by_minus(Effect wanted, Effect held) {
  return wanted == Effect::Allow && held != Effect::Allow ? Effect::Allow : Effect::Silent;
}

FacetMap unite_maps(const FacetMap& left, const FacetMap& right) {
  return FacetMap::combine(left, right, joined_by_unite);
}

FacetMap attenuate_maps(const FacetMap& left, const FacetMap& right) {
  return FacetMap::combine(left, right, joined_by_attenuate);
}

std::optional<std::uint64_t> smaller(std::optional<std::uint64_t> left,
                                     std::optional<std::uint64_t> right) {
  if (!left || !right) return left ? left : right;
  return std::min(*left, *right);
}

bool exceeds(std::optional<std::uint64_t> asked, std::optional<std::uint64_t> held) {
  return held && (!asked || *asked > *held);
}

// The facet of `span` with the worst verdict; the first one of those.
Facet worst_facet(const FacetMap& map, const Span& span) {
  Facet worst = span.first;
  const auto consider = [&](std::uint32_t facet) {
    if (facet < span.first || facet > span.last) return;
    const auto candidate = static_cast<Facet>(facet);
    if (severity(map.at(candidate)) > severity(map.at(worst))) worst = candidate;
  };
  for (const Span& each : map.spans()) {
    consider(each.first);
    consider(each.last + 1U);  // where a gap, and so silence, may begin
  }
  return worst;
}

// The rule among `rules` that gives `facet` its effect.
std::optional<Rule> find_rule(const std::vector<Rule>& rules, Facet facet, Effect effect) {
  for (const Rule& rule : rules) {
    if (rule.effect != effect) continue;
    for (const Place& place : places_of(rule)) {
      const Span& span = place.clause.span;
      if (span.first <= facet && facet <= span.last) return rule;
    }
  }
  return std::nullopt;
}

Result<void> check_bounds(std::span<const Rule> rules) {
  if (rules.size() > AuthoritySet::kMaxRules) {
    return fail(Code::Exhausted, "authority: {} rules, at most {} are taken", rules.size(),
                AuthoritySet::kMaxRules);
  }
  std::set<PortRange> ranges;
  for (const Rule& rule : rules) {
    if (const auto* connect = std::get_if<ConnectTCP>(&rule.capability)) {
      ranges.insert(connect->ports);
    } else if (const auto* listen = std::get_if<ListenTCP>(&rule.capability)) {
      ranges.insert(listen->ports);
    }
  }
  if (ranges.size() > AuthoritySet::kMaxPortRanges) {
    return fail(Code::Exhausted, "authority: {} different port ranges, at most {} are taken",
                ranges.size(), AuthoritySet::kMaxPortRanges);
  }
  return {};
}

}  // namespace

Result<AuthoritySet> AuthoritySet::from_rules(std::span<const Rule> rules) {
  TRY_VOID(check_bounds(rules));
  AuthoritySet set;
  std::array<std::vector<Clause>, kGroundCount> clauses;
  for (const Rule& rule : rules) {
    if (const auto budget = find_budget(rule.capability)) {
      if (rule.effect != Effect::Allow) {
        return fail(Code::Invalid, "{}: a budget is set, not denied (set a smaller one)",
                    to_text(rule));
      }
      auto& amount = set.budgets_[static_cast<std::size_t>(budget->kind)];
      amount = smaller(amount, budget->amount);
    }
    for (Place& place : places_of(rule)) {
      clauses[static_cast<std::size_t>(place.ground)].push_back(std::move(place.clause));
    }
  }
  for (std::size_t i = 0; i < kGroundCount; ++i) {
    set.trees_[i] = RuleTree(std::move(clauses[i]), settle_for(static_cast<Ground>(i)));
  }
  return set;
}

Result<AuthoritySet> AuthoritySet::granting(std::span<const Capability> capabilities) {
  std::vector<Rule> rules;
  for (const Capability& capability : capabilities) rules.push_back({Effect::Allow, capability});
  return from_rules(rules);
}

std::vector<Rule> AuthoritySet::rules() const {
  std::vector<Rule> all;
  for (std::size_t i = 0; i < kGroundCount; ++i) {
    for (const RuleTree::Node& node : trees_[i].nodes()) {
      const FacetMap& before = trees_[i].map_of(node.above);
      for (Rule& rule : rules_at(static_cast<Ground>(i), node.key, node.map, before)) {
        all.push_back(std::move(rule));
      }
    }
  }
  for (const BudgetInfo& info : kBudgets) {
    const auto amount = budget(info.kind);
    if (!amount) continue;
    auto capability = make_budget(info.kind, *amount);
    GLOVEBOX_CHECK(capability.has_value());
    all.push_back({Effect::Allow, *std::move(capability)});
  }
  return all;
}

AuthoritySet AuthoritySet::combine(const AuthoritySet& other, const RuleTree::MapJoin& join) const {
  AuthoritySet joined;
  for (std::size_t i = 0; i < kGroundCount; ++i) {
    joined.trees_[i] = RuleTree::combine(trees_[i], other.trees_[i], join);
  }
  for (std::size_t i = 0; i < budgets_.size(); ++i) {
    joined.budgets_[i] = smaller(budgets_[i], other.budgets_[i]);
  }
  return joined;
}

AuthoritySet AuthoritySet::unite(const AuthoritySet& other) const {
  return combine(other, unite_maps);
}

AuthoritySet AuthoritySet::attenuate(const AuthoritySet& other) const {
  return combine(other, attenuate_maps);
}

bool AuthoritySet::covers(const AuthoritySet& other) const {
  for (std::size_t i = 0; i < budgets_.size(); ++i) {
    if (exceeds(other.budgets_[i], budgets_[i])) return false;
  }
  for (std::size_t i = 0; i < kGroundCount; ++i) {
    if (!trees_[i].allows_all_of(other.trees_[i])) return false;
  }
  return true;
}

Shortfall AuthoritySet::minus(const AuthoritySet& held) const {
  Shortfall missing;
  for (std::size_t i = 0; i < kGroundCount; ++i) {
    // Who lacks writing is told to get writing, which implies reading, even if reading is held.
    const RuleTree::Settle settle = settle_for(static_cast<Ground>(i));
    missing.grants.trees_[i] = RuleTree::combine(
        trees_[i], held.trees_[i], [settle](const FacetMap& wanted, const FacetMap& has) {
          FacetMap lacking = FacetMap::combine(wanted, has, joined_by_minus);
          settle(lacking);
          return lacking;
        });
  }
  for (const BudgetInfo& info : kBudgets) {
    const auto asked = budget(info.kind);
    const auto limit = held.budget(info.kind);
    if (limit && exceeds(asked, limit)) missing.budgets.push_back({info.kind, *limit, asked});
  }
  return missing;
}

Decision AuthoritySet::decide_at(const Place& point) const {
  const RuleTree& rules = tree(point.ground);
  int node = rules.find_node(point.clause.key);
  const Facet facet = worst_facet(rules.map_of(node), point.clause.span);
  const Effect effect = rules.map_of(node).at(facet);
  // The node that decides is the highest on the way up that still says so.
  while (node != RuleTree::kNoNode) {
    const RuleTree::Node& here = rules.nodes()[static_cast<std::size_t>(node)];
    const FacetMap& before = rules.map_of(here.above);
    if (before.at(facet) != effect) {
      return {effect, find_rule(rules_at(point.ground, here.key, here.map, before), facet, effect)};
    }
    node = here.above;
  }
  return {effect, std::nullopt};
}

AuthoritySet::PathEffects AuthoritySet::effects_at(const AbsolutePath& path) const {
  const RuleTree& rules = tree(Ground::Paths);
  const FacetMap& map = rules.map_of(rules.find_node(path_key(path)));
  return {map.at(kReadFacet), map.at(kWriteFacet), map.at(kExecFacet), map.at(kUnixFacet)};
}

Decision AuthoritySet::decide_budget(const BudgetTerm& asked) const {
  const auto held = budget(asked.kind);
  if (!held) return {Effect::Allow, std::nullopt};
  auto limit = make_budget(asked.kind, *held);
  GLOVEBOX_CHECK(limit.has_value());
  const Effect effect = exceeds(asked.amount, held) ? Effect::Deny : Effect::Allow;
  return {effect, Rule{Effect::Allow, *std::move(limit)}};
}

Decision AuthoritySet::decide(const Capability& capability) const {
  if (const auto asked = find_budget(capability)) return decide_budget(*asked);
  std::vector<Decision> decisions;
  for (const Place& point : points_of(capability)) decisions.push_back(decide_at(point));
  return *std::max_element(decisions.begin(), decisions.end(),
                           [](const Decision& left, const Decision& right) {
                             return severity(left.effect) < severity(right.effect);
                           });
}

bool AuthoritySet::grants_nothing() const {
  return std::none_of(trees_.begin(), trees_.end(),
                      [](const RuleTree& rules) { return rules.allows_anything(); });
}

std::string to_text(const AuthoritySet& set) {
  std::string text;
  for (const Rule& rule : set.rules()) text += to_text(rule) + "\n";
  return text;
}

std::string to_text(const Shortfall& shortfall) {
  std::string text = to_text(shortfall.grants);
  for (const BudgetExcess& excess : shortfall.budgets) {
    const std::string asked =
        excess.asked ? amount_to_text(excess.kind, *excess.asked) : std::string("no limit");
    text += fmt::format("{}: asks for {}, {} is held\n", info(excess.kind).word, asked,
                        amount_to_text(excess.kind, excess.held));
  }
  return text;
}

}  // namespace glovebox::authority
