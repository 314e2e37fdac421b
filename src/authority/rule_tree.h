// The one structure behind every kind of grant: a tree of places, and at each place a verdict.
//
// Paths, domain names, networks and modules are all trees: /a/b lies below /a, a.example.com
// below *.example.com, 10.1.0.0/16 below 10.0.0.0/8. A rule on a place speaks for everything below
// it, until a rule on a place further down speaks. Kinds without depth (secrets, channels) are the
// same tree with one level. placement.h says how each kind is written as a place.
//
// A place is a byte string, its *key*, built so that "lies below" is "has as prefix". Within one
// place, a small number, the *facet*, tells apart what can be allowed separately: reading from
// writing, or one port from another.
#pragma once

#include "authority/capability.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::authority {

using Facet = std::uint16_t;

// Consecutive facets with one effect; both ends included.
struct Span {
  Facet first;
  Facet last;
  Effect effect;

  friend bool operator==(const Span&, const Span&) = default;
};

// An effect for every facet: spans in order, apart or with different effects; Silent is left out,
// so two maps that say the same are equal.
class FacetMap {
 public:
  Effect at(Facet facet) const;
  bool empty() const { return spans_.empty(); }
  const std::vector<Span>& spans() const { return spans_; }
  bool allows_anything() const;
  // Whether every facet that `other` allows is allowed here too.
  bool allows_all_of(const FacetMap& other) const;

  // Sets the facets of `span` to its effect, whatever they were.
  void paint(Span span);

  using Join = Effect (*)(Effect, Effect);
  // Facet by facet. `join` must give Silent for two Silents.
  static FacetMap combine(const FacetMap& left, const FacetMap& right, Join join);
  // Where `map` and `base` differ, with the effect `map` has there. This list does hold Silent.
  static std::vector<Span> differences(const FacetMap& map, const FacetMap& base);

  friend bool operator==(const FacetMap&, const FacetMap&) = default;

 private:
  std::vector<Span> spans_;
};

// One rule as the tree sees it. Of two clauses on the same key the one of smaller `breadth` wins,
// and between equals the one that gives less: Deny, then Silent, then Allow.
struct Clause {
  std::string key;
  Span span;
  std::uint32_t breadth;
};

// An immutable tree in normal form: nodes in key order, each with the whole map that holds there
// and below, none that merely repeats what the node above it says. Two trees that give the same
// verdicts at all places are equal.
class RuleTree {
 public:
  static constexpr int kNoNode = -1;

  struct Node {
    std::string key;
    FacetMap map;
    int above;  // index of the nearest node whose key is a prefix of this one's, or kNoNode

    friend bool operator==(const Node&, const Node&) = default;
  };

  // Brings a map into agreement with what the kind implies; see settle_for() in placement.h.
  using Settle = void (*)(FacetMap&);

  RuleTree() = default;
  RuleTree(std::vector<Clause> clauses, Settle settle);

  const std::vector<Node>& nodes() const { return nodes_; }
  const FacetMap& map_of(int node) const;
  // The node that speaks for `key`, or kNoNode.
  int find_node(std::string_view key) const;
  bool allows_anything() const;

  // Applies `join` to the verdicts of both trees at every place. One walk along both node lists,
  // so the time grows with their sum, as it does for allows_all_of().
  using MapJoin = std::function<FacetMap(const FacetMap&, const FacetMap&)>;
  static RuleTree combine(const RuleTree& left, const RuleTree& right, const MapJoin& join);
  // Whether everything that `other` allows, at every place, is allowed here.
  bool allows_all_of(const RuleTree& other) const;

  friend bool operator==(const RuleTree&, const RuleTree&) = default;

 private:
  // Adds a node unless it repeats the one above. Keys must come in order.
  void append(std::string_view key, FacetMap map);
  int find_above(std::string_view key) const;

  std::vector<Node> nodes_;
};

}  // namespace glovebox::authority
