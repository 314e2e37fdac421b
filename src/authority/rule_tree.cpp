#include "authority/rule_tree.h"

#include "base/result.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace glovebox::authority {
namespace {

constexpr std::uint32_t kLastFacet = std::numeric_limits<Facet>::max();
const FacetMap kSilentMap;

Facet narrow(std::uint32_t facet) { return static_cast<Facet>(facet); }

// Extends the last span where that is possible, so lists stay in their one form.
void append_span(std::vector<Span>& spans, Span span) {
  if (!spans.empty() && spans.back().effect == span.effect &&
      spans.back().last + 1U == span.first) {
    spans.back().last = span.last;
  } else {
    spans.push_back(span);
  }
}

// Reads a map from the first facet to the last in runs of one effect, Silent runs included.
class RunReader {
 public:
  explicit RunReader(const std::vector<Span>& spans) : spans_(spans) {}

  struct Run {
    Effect effect;
    std::uint32_t last;
  };

  // The run that holds `facet`. Facets must be asked for in ascending order.
  Run at(std::uint32_t facet) {
    while (next_ < spans_.size() && spans_[next_].last < facet) ++next_;
    if (next_ == spans_.size()) return {Effect::Silent, kLastFacet};
    const Span& span = spans_[next_];
    if (facet < span.first) return {Effect::Silent, span.first - 1U};
    return {span.effect, span.last};
  }

 private:
  const std::vector<Span>& spans_;
  std::size_t next_ = 0;
};

// Calls visit(first, last, left effect, right effect) for the runs in which neither changes.
template <class Visit>
void for_each_common_run(const FacetMap& left, const FacetMap& right, Visit visit) {
  RunReader left_reader(left.spans());
  RunReader right_reader(right.spans());
  for (std::uint32_t facet = 0; facet <= kLastFacet;) {
    const auto left_run = left_reader.at(facet);
    const auto right_run = right_reader.at(facet);
    const std::uint32_t last = std::min(left_run.last, right_run.last);
    visit(narrow(facet), narrow(last), left_run.effect, right_run.effect);
    facet = last + 1;
  }
}

// Follows one tree while keys are asked for in ascending order.
class Cursor {
 public:
  explicit Cursor(const RuleTree& tree) : tree_(tree) {}

  bool at_end() const { return next_ == tree_.nodes().size(); }
  const std::string& next_key() const { return tree_.nodes()[next_].key; }

  const FacetMap& advance_to(std::string_view key) {
    const auto& nodes = tree_.nodes();
    while (here_ != RuleTree::kNoNode && !key.starts_with(nodes[index(here_)].key)) {
      here_ = nodes[index(here_)].above;
    }
    if (!at_end() && next_key() == key) here_ = static_cast<int>(next_++);
    return tree_.map_of(here_);
  }

 private:
  static std::size_t index(int node) { return static_cast<std::size_t>(node); }

  const RuleTree& tree_;
  std::size_t next_ = 0;
  int here_ = RuleTree::kNoNode;
};

// Calls visit(key, left map, right map) at every key of either tree, in order, until it says no.
// Between those keys neither verdict changes, so what holds at them holds everywhere.
template <class Visit>
bool all_of_both(const RuleTree& left, const RuleTree& right, Visit visit) {
  Cursor left_cursor(left);
  Cursor right_cursor(right);
  while (!left_cursor.at_end() || !right_cursor.at_end()) {
    const bool take_left =
        right_cursor.at_end() ||
        (!left_cursor.at_end() && left_cursor.next_key() <= right_cursor.next_key());
    const std::string_view key = take_left ? left_cursor.next_key() : right_cursor.next_key();
    const FacetMap& left_map = left_cursor.advance_to(key);
    const FacetMap& right_map = right_cursor.advance_to(key);
    if (!visit(key, left_map, right_map)) return false;
  }
  return true;
}

// By key, and on one key the weakest clause first, since each paints over those before it.
bool is_painted_before(const Clause& left, const Clause& right) {
  if (const int order = left.key.compare(right.key); order != 0) return order < 0;
  if (left.breadth != right.breadth) return left.breadth > right.breadth;
  return severity(left.span.effect) < severity(right.span.effect);
}

}  // namespace

Effect FacetMap::at(Facet facet) const {
  const auto span = std::find_if(spans_.begin(), spans_.end(),
                                 [&](const Span& each) { return facet <= each.last; });
  return span == spans_.end() || facet < span->first ? Effect::Silent : span->effect;
}

bool FacetMap::allows_anything() const {
  return std::any_of(spans_.begin(), spans_.end(),
                     [](const Span& span) { return span.effect == Effect::Allow; });
}

bool FacetMap::allows_all_of(const FacetMap& other) const {
  RunReader reader(spans_);
  return std::all_of(other.spans_.begin(), other.spans_.end(), [&](const Span& span) {
    if (span.effect != Effect::Allow) return true;
    const auto run = reader.at(span.first);
    return run.effect == Effect::Allow && run.last >= span.last;
  });
}

void FacetMap::paint(Span span) {
  std::vector<Span> painted;
  for (const Span& old : spans_) {
    if (old.first >= span.first) break;
    append_span(painted, {old.first, std::min(old.last, narrow(span.first - 1U)), old.effect});
  }
  if (span.effect != Effect::Silent) append_span(painted, span);
  for (const Span& old : spans_) {
    if (old.last <= span.last) continue;
    append_span(painted, {std::max(old.first, narrow(span.last + 1U)), old.last, old.effect});
  }
  spans_ = std::move(painted);
}

FacetMap FacetMap::combine(const FacetMap& left, const FacetMap& right, Join join) {
  FacetMap joined;
  for_each_common_run(left, right, [&](Facet first, Facet last, Effect a, Effect b) {
    const Effect effect = join(a, b);
    if (effect != Effect::Silent) append_span(joined.spans_, {first, last, effect});
  });
  return joined;
}

std::vector<Span> FacetMap::differences(const FacetMap& map, const FacetMap& base) {
  std::vector<Span> spans;
  for_each_common_run(map, base, [&](Facet first, Facet last, Effect effect, Effect before) {
    if (effect != before) append_span(spans, {first, last, effect});
  });
  return spans;
}

RuleTree::RuleTree(std::vector<Clause> clauses, Settle settle) {
  std::sort(clauses.begin(), clauses.end(), is_painted_before);
  for (auto clause = clauses.begin(); clause != clauses.end();) {
    const std::string& key = clause->key;
    FacetMap map = map_of(find_above(key));
    for (; clause != clauses.end() && clause->key == key; ++clause) map.paint(clause->span);
    settle(map);
    append(key, std::move(map));
  }
}

const FacetMap& RuleTree::map_of(int node) const {
  return node == kNoNode ? kSilentMap : nodes_[static_cast<std::size_t>(node)].map;
}

int RuleTree::find_node(std::string_view key) const {
  const auto after =
      std::upper_bound(nodes_.begin(), nodes_.end(), key,
                       [](std::string_view wanted, const Node& node) { return wanted < node.key; });
  int node = static_cast<int>(after - nodes_.begin()) - 1;
  while (node != kNoNode && !key.starts_with(nodes_[static_cast<std::size_t>(node)].key)) {
    node = nodes_[static_cast<std::size_t>(node)].above;
  }
  return node;
}

bool RuleTree::allows_anything() const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const Node& node) { return node.map.allows_anything(); });
}

RuleTree RuleTree::combine(const RuleTree& left, const RuleTree& right, const MapJoin& join) {
  RuleTree joined;
  all_of_both(left, right,
              [&](std::string_view key, const FacetMap& left_map, const FacetMap& right_map) {
                joined.append(key, join(left_map, right_map));
                return true;
              });
  return joined;
}

bool RuleTree::allows_all_of(const RuleTree& other) const {
  return all_of_both(*this, other,
                     [](std::string_view, const FacetMap& ours, const FacetMap& theirs) {
                       return ours.allows_all_of(theirs);
                     });
}

// Keys come in order, so the node above is the last one or one of those above it.
int RuleTree::find_above(std::string_view key) const {
  int node = static_cast<int>(nodes_.size()) - 1;
  while (node != kNoNode && !key.starts_with(nodes_[static_cast<std::size_t>(node)].key)) {
    node = nodes_[static_cast<std::size_t>(node)].above;
  }
  return node;
}

void RuleTree::append(std::string_view key, FacetMap map) {
  GLOVEBOX_CHECK(nodes_.empty() || nodes_.back().key < key);
  const int above = find_above(key);
  if (map == map_of(above)) return;
  nodes_.push_back({std::string(key), std::move(map), above});
}

}  // namespace glovebox::authority
