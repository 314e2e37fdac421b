#include "policy/compile.h"

#include "authority/names.h"
#include "authority/placement.h"
#include "authority/terms.h"
#include "base/plain_text.h"
#include "policy/grammar.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace glovebox::policy {
namespace {

using authority::Effect;
using authority::Rule;

constexpr std::string_view kDefaultSandbox = "default";

struct NamedBody {
  std::string name;
  Position position;
  Body body;
};

// A body with all that it inherits, root first.
using Lineage = std::vector<const Body*>;

std::string rule_text(const std::variant<Rule, PathRule>& rule) {
  return std::visit([](const auto& each) { return to_text(each); }, rule);
}

// ---- Conflicts: one place, allowed and denied. The most specific rule decides, and neither is.

// A use of a thing, as text that is equal for equal uses: "which tree, which key, which facets".
using Spot = std::string;

std::string spot_text(char tree, std::string_view key, std::uint32_t first, std::uint32_t last) {
  return fmt::format("{}{}:{}:{}", tree, first, last, key);
}

bool has_ports(authority::Ground ground) {
  return ground == authority::Ground::Connect || ground == authority::Ground::Listen;
}

// Ports are compared as whole ranges, since of two ranges the narrower decides; other facets one
// by one.
void add_spots(std::vector<Spot>& spots, const Rule& rule, std::string_view key_instead) {
  for (const authority::Place& place : authority::places_of(rule)) {
    const auto tree = static_cast<char>('A' + static_cast<int>(place.ground));
    const std::string_view key = key_instead.empty() ? place.clause.key : key_instead;
    const authority::Span& span = place.clause.span;
    if (has_ports(place.ground)) {
      spots.push_back(spot_text(tree, key, span.first, span.last));
      continue;
    }
    for (std::uint32_t facet = span.first; facet <= span.last; ++facet) {
      spots.push_back(spot_text(tree, key, facet, facet));
    }
  }
}

std::vector<Spot> spots_of(const std::variant<Rule, PathRule>& rule) {
  std::vector<Spot> spots;
  if (const auto* plain = std::get_if<Rule>(&rule)) {
    add_spots(spots, *plain, {});
    return spots;
  }
  const PathRule& pattern = std::get<PathRule>(rule);
  auto anywhere = authority::AbsolutePath::parse("/");
  GLOVEBOX_CHECK(anywhere.has_value());
  // A key of a plain path ends with NUL and starts with no slash, so none equals a pattern's text.
  add_spots(spots, {pattern.effect, use_of_path(pattern.use, *std::move(anywhere))},
            pattern.pattern.text());
  return spots;
}

Effect effect_of(const std::variant<Rule, PathRule>& rule) {
  return std::visit([](const auto& each) { return each.effect; }, rule);
}

class Compiler {
 public:
  explicit Compiler(std::string_view file) : file_(file) {}

  Result<PolicyFile, Diagnostics> compile(const DocumentNode& root) {
    read(root);
    PolicyFile result{file_, {}};
    if (problems_.empty()) {
      for (const NamedBody& each : bodies_) {
        if (auto compiled = compile_one(each)) result.sandboxes.push_back(*std::move(compiled));
      }
    }
    if (problems_.empty()) return result;
    return tl::unexpected(sorted_problems());
  }

 private:
  void complain(Where where, std::string what, std::string hint = {}) {
    problems_.push_back({std::move(where), std::move(what), std::move(hint)});
  }

  // In the order of the document, each once: a conflict among inherited rules shows in every heir.
  Diagnostics sorted_problems() {
    std::sort(problems_.begin(), problems_.end());
    problems_.erase(std::unique(problems_.begin(), problems_.end()), problems_.end());
    return std::move(problems_);
  }

  // ---- Reading.

  void read(const DocumentNode& root) {
    if (root.kind != NodeKind::Mapping) {
      complain(where_of(file_, root),
               fmt::format("a policy document must be a mapping, not {}", root.kind_text()));
      return;
    }
    check_version(root);
    if (const DocumentNode* defaults = root.find("defaults")) read_defaults(*defaults);
    if (const DocumentNode* sandboxes = root.find("sandboxes")) {
      check_document_keys(root);
      read_sandboxes(*sandboxes);
    } else {
      bodies_.push_back(
          {"", {root.line, root.column}, read_body(root, BodyRole::Flat, file_, problems_)});
    }
    check_parents();
  }

  void check_version(const DocumentNode& root) {
    const DocumentNode* version = root.find("version");
    if (version == nullptr) return;
    const bool is_known =
        version->kind == NodeKind::Scalar &&
        std::find(kVersions.begin(), kVersions.end(), version->text) != kVersions.end();
    if (is_known) return;
    const std::string shown = version->kind == NodeKind::Scalar ? quoted(version->text)
                                                                : std::string(version->kind_text());
    complain(where_of(file_, *version), fmt::format("unsupported version {}", shown), "write 1");
  }

  void check_document_keys(const DocumentNode& root) {
    const auto known = document_keys();
    const auto body = body_keys();
    for (const DocumentNode& key : root.keys) {
      if (std::find(known.begin(), known.end(), key.text) != known.end()) continue;
      const bool is_of_body = std::find(body.begin(), body.end(), key.text) != body.end();
      complain(where_of(file_, key),
               is_of_body ? fmt::format("'{}' stands beside 'sandboxes'", key.text)
                          : fmt::format("unknown key {}", quoted(key.text)),
               is_of_body ? "put it into a sandbox, or into 'defaults' for all of them"
                          : nearest_hint(key.text, known,
                                         fmt::format("one of: {}", fmt::join(known, ", "))));
    }
  }

  void read_defaults(const DocumentNode& node) {
    if (node.kind == NodeKind::Null) return;
    if (node.kind != NodeKind::Mapping) {
      complain(where_of(file_, node),
               fmt::format("'defaults' must be a mapping, not {}", node.kind_text()));
      return;
    }
    defaults_ = read_body(node, BodyRole::Defaults, file_, problems_);
  }

  void read_sandboxes(const DocumentNode& node) {
    if (node.kind != NodeKind::Mapping || node.keys.empty()) {
      complain(where_of(file_, node), "'sandboxes' must be a mapping of at least one sandbox");
      return;
    }
    if (node.keys.size() > kMaxSandboxes) {
      complain(where_of(file_, node),
               fmt::format("{} sandboxes, at most {} are taken", node.keys.size(), kMaxSandboxes));
      return;
    }
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      const DocumentNode& key = node.keys[i];
      if (!authority::SecretName::parse(key.text)) {
        complain(where_of(file_, key), fmt::format("the name of a sandbox is {}", quoted(key.text)),
                 "use letters, digits, '_', '.' and '-', 128 at most");
      }
      indexes_.emplace(key.text, bodies_.size());
      bodies_.push_back({key.text,
                         {key.line, key.column},
                         read_body(node.items[i], BodyRole::Sandbox, file_, problems_)});
    }
  }

  void check_parents() {
    std::vector<std::string_view> names;
    names.reserve(bodies_.size());
    for (const NamedBody& each : bodies_) names.push_back(each.name);
    for (const NamedBody& each : bodies_) {
      const auto& extends = each.body.extends;
      if (!extends || indexes_.contains(extends->value)) continue;
      complain(where_of(file_, extends->position),
               fmt::format("unknown parent sandbox {}", quoted(extends->value)),
               nearest_hint(extends->value, names));
    }
    if (!problems_.empty()) return;
    for (const NamedBody& each : bodies_) check_cycle(each);
  }

  // Follows the parents of one sandbox; as many steps as there are sandboxes means a cycle.
  void check_cycle(const NamedBody& start) {
    const NamedBody* at = &start;
    for (std::size_t step = 0; step <= bodies_.size(); ++step) {
      const auto& parent = at->body.extends;
      if (!parent) return;
      at = &bodies_[indexes_.at(parent->value)];
      if (at == &start) break;
    }
    const auto& own = start.body.extends;
    if (at != &start || !own) return;  // it leads into a cycle of others, who tell
    complain(where_of(file_, own->position),
             fmt::format("'{}' extends itself, by way of '{}'", start.name, own->value),
             "a sandbox cannot be its own ancestor");
  }

  // ---- Joining.

  Lineage lineage_of(const NamedBody& each) const {
    Lineage lineage;
    for (const Body* at = &each.body; at != nullptr;) {
      lineage.push_back(at);
      const auto& parent = at->extends;
      at = parent ? &bodies_[indexes_.at(parent->value)].body : nullptr;
    }
    lineage.push_back(&defaults_);
    std::reverse(lineage.begin(), lineage.end());
    return lineage;
  }

  std::optional<CompiledPolicy> compile_one(const NamedBody& each) {
    CompiledPolicy compiled;
    compiled.file = file_;
    compiled.policy.name = each.name;
    compiled.policy.description = each.body.description;
    std::map<authority::BudgetKind, std::uint64_t> budgets;
    for (const Body* body : lineage_of(each)) {
      if (!add_body(compiled, *body, each)) return std::nullopt;
      for (const auto& [kind, amount] : body->budgets) {
        budgets[kind] = amount.value;
        compiled.budget_sources[kind] = amount.position;
      }
    }
    check_conflicts(compiled.sources);
    if (!build_authority(compiled, budgets, each)) return std::nullopt;
    normalise(compiled.policy);
    check_examples(compiled.policy, each.body);
    return compiled;
  }

  bool add_body(CompiledPolicy& compiled, const Body& body, const NamedBody& heir) {
    rules_so_far_ += body.rules.size();
    if (rules_so_far_ > kMaxRulesOfDocument) {
      complain(where_of(file_, heir.position),
               fmt::format("more than {} rules in one document, inherited ones counted each time",
                           kMaxRulesOfDocument));
      return false;
    }
    compiled.sources.insert(compiled.sources.end(), body.rules.begin(), body.rules.end());
    Policy& policy = compiled.policy;
    policy.waived.insert(body.waived.begin(), body.waived.end());
    if (body.cpus_milli) policy.cpus_milli = body.cpus_milli;
    if (body.backend) policy.backend = body.backend;
    if (body.workspace) policy.workspace = body.workspace;
    return true;
  }

  void check_conflicts(const std::vector<SourceRule>& sources) {
    struct Sides {
      const SourceRule* allow = nullptr;
      const SourceRule* deny = nullptr;
    };
    std::unordered_map<Spot, Sides> seen;
    std::set<std::pair<const SourceRule*, const SourceRule*>> reported;
    for (const SourceRule& source : sources) {
      const Effect effect = effect_of(source.value);
      if (effect == Effect::Silent) continue;
      for (Spot& spot : spots_of(source.value)) {
        Sides& sides = seen[std::move(spot)];
        const SourceRule* against = effect == Effect::Allow ? sides.deny : sides.allow;
        (effect == Effect::Allow ? sides.allow : sides.deny) = &source;
        if (against != nullptr && reported.emplace(against, &source).second) {
          complain_about_conflict(source, *against);
        }
      }
    }
  }

  void complain_about_conflict(const SourceRule& later, const SourceRule& earlier) {
    const std::string what =
        fmt::format("'{}' contradicts '{}' of {}", rule_text(later.value), rule_text(earlier.value),
                    to_text(where_of(file_, earlier.position)));
    // One line of a document gives several rules on the same path; one complaint is enough.
    if (!problems_.empty() && problems_.back().where == where_of(file_, later.position)) return;
    complain(where_of(file_, later.position), what, "keep one");
  }

  bool build_authority(CompiledPolicy& compiled,
                       const std::map<authority::BudgetKind, std::uint64_t>& budgets,
                       const NamedBody& each) {
    std::vector<Rule> rules;
    for (const SourceRule& source : compiled.sources) {
      if (const auto* rule = std::get_if<Rule>(&source.value)) {
        rules.push_back(*rule);
        add_named_path(compiled.policy, *rule);
      } else {
        compiled.policy.path_rules.push_back(std::get<PathRule>(source.value));
      }
    }
    for (const auto& [kind, amount] : budgets) {
      auto budget = authority::make_budget(kind, amount);
      GLOVEBOX_CHECK(budget.has_value());
      rules.push_back({Effect::Allow, *std::move(budget)});
    }
    auto set = authority::AuthoritySet::from_rules(rules);
    if (!set) {
      complain(where_of(file_, each.position), set.error().message);
      return false;
    }
    compiled.policy.authority = *std::move(set);
    return check_pattern_count(compiled.policy, each);
  }

  // A path that is named is kept beside the set as well; normalise() drops those that no pattern
  // is about.
  static void add_named_path(Policy& policy, const Rule& rule) {
    if (rule.effect == Effect::Silent) return;
    if (auto used = find_used_path(rule.capability)) {
      policy.path_rules.push_back({PathPattern::exactly(used->path), used->use, rule.effect});
    }
  }

  bool check_pattern_count(const Policy& policy, const NamedBody& each) {
    std::set<PathPattern> patterns;
    for (const PathRule& rule : policy.path_rules) {
      if (rule.pattern.has_wildcards()) patterns.insert(rule.pattern);
    }
    if (patterns.size() <= kMaxPatterns) return true;
    complain(where_of(file_, each.position),
             fmt::format("{} paths with wildcards, at most {} are taken", patterns.size(),
                         kMaxPatterns));
    return false;
  }

  void check_examples(const Policy& policy, const Body& body) {
    for (const auto& example : body.allows) {
      const Effect effect = decide(policy, example.value);
      if (effect == Effect::Allow) continue;
      complain(where_of(file_, example.position),
               fmt::format("the example '{}' is not allowed", example_text(example.value)),
               effect == Effect::Deny ? "a rule denies it" : "no rule grants it");
    }
    for (const auto& example : body.refuses) {
      if (decide(policy, example.value) != Effect::Allow) continue;
      complain(where_of(file_, example.position),
               fmt::format("the example '{}' is not refused", example_text(example.value)),
               "a rule grants it");
    }
  }

  static std::string example_text(const authority::Capability& capability) {
    return one_line(authority::to_text(capability));
  }

  std::string file_;
  Diagnostics problems_;
  Body defaults_;
  std::vector<NamedBody> bodies_;
  std::unordered_map<std::string, std::size_t> indexes_;
  std::size_t rules_so_far_ = 0;
};

}  // namespace

const CompiledPolicy* PolicyFile::find(std::string_view name) const {
  const auto found =
      std::find_if(sandboxes.begin(), sandboxes.end(),
                   [&](const CompiledPolicy& each) { return each.policy.name == name; });
  return found == sandboxes.end() ? nullptr : &*found;
}

std::vector<std::string_view> PolicyFile::names() const {
  std::vector<std::string_view> all;
  all.reserve(sandboxes.size());
  for (const CompiledPolicy& each : sandboxes) all.push_back(each.policy.name);
  return all;
}

Result<PolicyFile, Diagnostics> compile(std::string_view text, std::string_view file) {
  TRY(const DocumentNode root, read_document(text, file));
  return Compiler(file).compile(root);
}

Result<CompiledPolicy, Diagnostics> select_sandbox(const PolicyFile& file, std::string_view name) {
  if (name.empty() && file.sandboxes.size() == 1) return file.sandboxes.front();
  if (const CompiledPolicy* found = file.find(name.empty() ? kDefaultSandbox : name)) return *found;
  const std::vector<std::string_view> names = file.names();
  if (name.empty()) {
    return tl::unexpected(about_file(file.file, "holds several sandboxes and none named 'default'",
                                     fmt::format("name one of: {}", fmt::join(names, ", "))));
  }
  const bool is_flat = names.size() == 1 && names.front().empty();
  return tl::unexpected(about_file(
      file.file, fmt::format("has no sandbox {}", quoted(name)),
      is_flat ? "it is a single sandbox without a name"
              : nearest_hint(name, names, fmt::format("one of: {}", fmt::join(names, ", ")))));
}

}  // namespace glovebox::policy
