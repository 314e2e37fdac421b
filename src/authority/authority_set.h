// AuthoritySet: everything a box may do, as one value.
//
// A set gives each thing (a path and a way to use it, a host and a port, a module, ...) one of
// three verdicts: *allowed*, *denied*, or *silent*, which is what a set says of all it does not
// mention. Only what is allowed may be done. Denied and silent differ when sets are joined: silence
// can be filled by another source, a denial cannot.
//
// Within one source (from_rules) the most specific rule decides, so a denial inside a grant and a
// grant inside a denial both work:
//   - a deeper place beats one above it: /a/b beats /a, 10.1.0.0/16 beats 10.0.0.0/8, example.com
//     and a.example.com beat *.com, NAME=value beats NAME;
//   - on the same host, the narrower range of ports beats the wider;
//   - on a tie, Deny beats Silent beats Allow.
// Writing implies reading: to grant writing grants both, to deny reading denies both, and a Silent
// rule about writing does not lift its denial where reading is denied. The same goes for the shell
// form of a command and the plain one.
//
// Across sources (unite) a denial is final: nothing handed in reopens what a policy denies.
//
// Laws, for all sets a, b, c; `==` compares normal forms, which are equal exactly when all verdicts
// and budgets are. authority_set_property_test.cpp checks each of them.
//   unite        a ∪ a == a,  a ∪ b == b ∪ a,  (a ∪ b) ∪ c == a ∪ (b ∪ c),  a ∪ {} == a
//                what a or b denies, a ∪ b denies; it allows what either allows and none denies
//   attenuate    the same three, and it never widens: a.covers(a ∩ b) and b.covers(a ∩ b);
//                what both a and b cover, a ∩ b covers, and what either denies stays denied
//   covers       a.covers(a); a.covers(b) and b.covers(c) imply a.covers(c); {} covers only sets
//                that grant nothing
//   minus        a.covers(b) exactly when b.minus(a).empty(); b.minus(a).grants allows nothing that
//                b does not; if a denies nothing, a ∪ b.minus(a).grants allows all that b allows
//   normal form  from_rules(a.rules()) == a
//
// Two limits of covers() are on the safe side. Networks are compared block by block: the two halves
// of 10.0.0.0/8 do not cover 10.0.0.0/8 itself. And every address plus every name does not cover
// the host "*".
#pragma once

#include "authority/capability.h"
#include "authority/placement.h"
#include "authority/rule_tree.h"
#include "base/result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace glovebox::authority {

struct Shortfall;

// The answer to one question, and the rule of the normal form it comes from. No rule: the set is
// silent about it.
struct Decision {
  Effect effect = Effect::Silent;
  std::optional<Rule> rule;
};

class AuthoritySet {
 public:
  static constexpr std::size_t kMaxRules = 10'000;
  // A place keeps the verdict of every port range above it; this bounds what one source can cost.
  static constexpr std::size_t kMaxPortRanges = 512;

  // Grants nothing, denies nothing, limits nothing.
  AuthoritySet() = default;

  // One source. Order does not matter. Refused: a budget with another effect than Allow, and more
  // rules than the bounds above.
  static Result<AuthoritySet> from_rules(std::span<const Rule> rules);
  static Result<AuthoritySet> granting(std::span<const Capability> capabilities);

  // The normal form: rules in a fixed order, a place before those below it, budgets last.
  std::vector<Rule> rules() const;

  // Joins two sources. Allowed is what one allows and none denies; budgets are the smaller ones.
  AuthoritySet unite(const AuthoritySet& other) const;
  // What remains of this set when only `other` may be passed on: allowed is what both allow. Every
  // denial of either stays, so that uniting the result with more does not lift one.
  AuthoritySet attenuate(const AuthoritySet& other) const;
  // Whether this set may do all that `other` may: everything allowed there, in full depth, is
  // allowed here, and no budget there is larger than, or missing beside, one here.
  bool covers(const AuthoritySet& other) const;
  // What of this set `held` lacks: empty exactly when held.covers(*this).
  Shortfall minus(const AuthoritySet& held) const;

  // About the thing itself, not what lies below: decide(ReadPath{"/a"}) asks about /a even when
  // /a/b is denied. Of several things (a range of ports, two commands) the worst verdict counts.
  // A budget is denied when a smaller one is held, and then the rule is that smaller one.
  Decision decide(const Capability& capability) const;
  // The verdicts about one path at once, without the rules that give them: for planning, which
  // asks about every path that has a rule.
  struct PathEffects {
    Effect read, write, exec, connect;
  };
  PathEffects effects_at(const AbsolutePath& path) const;

  std::optional<std::uint64_t> budget(BudgetKind kind) const {
    return budgets_[static_cast<std::size_t>(kind)];
  }

  // Whether no capability is allowed. Denials and budgets grant nothing.
  bool grants_nothing() const;
  bool empty() const { return *this == AuthoritySet(); }

  friend bool operator==(const AuthoritySet&, const AuthoritySet&) = default;

 private:
  using Budgets = std::array<std::optional<std::uint64_t>, kBudgets.size()>;

  const RuleTree& tree(Ground ground) const { return trees_[static_cast<std::size_t>(ground)]; }
  // The join takes the two trees' verdicts at one place; budgets come out as the smaller ones.
  AuthoritySet combine(const AuthoritySet& other, const RuleTree::MapJoin& join) const;
  Decision decide_at(const Place& point) const;
  Decision decide_budget(const BudgetTerm& asked) const;

  std::array<RuleTree, kGroundCount> trees_;
  Budgets budgets_;
};

// A budget that asks for more than is held; `asked` is empty when no limit is asked for.
struct BudgetExcess {
  BudgetKind kind;
  std::uint64_t held;
  std::optional<std::uint64_t> asked;

  friend bool operator==(const BudgetExcess&, const BudgetExcess&) = default;
};

// What would have to be granted besides. `grants` has no budgets and no denials.
struct Shortfall {
  AuthoritySet grants;
  std::vector<BudgetExcess> budgets;

  bool empty() const { return grants.empty() && budgets.empty(); }
};

// One rule a line: "allow read=/srv\ndeny read=/srv/private\n".
std::string to_text(const AuthoritySet& set);
// "allow read=/srv\ncpu: asks for no limit, 500ms is held\n".
std::string to_text(const Shortfall& shortfall);

}  // namespace glovebox::authority
