#include "workspace/commit/gate_rules.h"

#include "workspace/tree/printable.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <set>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 20;
constexpr std::size_t kMostRules = 1000;

constexpr std::array kConditions = {
    Condition::Any,
    Condition::LinkPointsOut,
    Condition::SetId,
    Condition::SpecialFile,
    Condition::FileCapability,
    Condition::Executable,
    Condition::OpenedDirectory,
    Condition::InHooksPath,
    Condition::NotAGitRef,
    Condition::GitConfigExecutes,
    Condition::AttributesBind,
    Condition::JsonKeysDiffer,
    Condition::ShadowsSource,
    Condition::GitUnreadable,
    Condition::GitForgedObject,
    Condition::GitHiddenFile,
    Condition::GitSubmoduleCommit,
};
constexpr std::array kClasses = {
    RuleClass::Agents, RuleClass::Toolchain, RuleClass::Editor, RuleClass::Ci,
    RuleClass::Git,    RuleClass::StartUp,   RuleClass::Files,
};
constexpr std::array kActs = {RuleAct::Hold, RuleAct::LeaveOut, RuleAct::Gather};

auto broken(std::string_view where, const YAML::Node& node, std::string_view what) {
  return fail(Code::Invalid, "{}:{}: {}", where, node.Mark().line + 1, what);
}

Result<std::string> read_text(const YAML::Node& node, std::string_view where) {
  if (!node.IsScalar() || node.Scalar().empty()) return broken(where, node, "a text is missing");
  return node.Scalar();
}

Result<std::vector<std::string>> read_texts(const YAML::Node& node, std::string_view where) {
  if (!node.IsSequence()) return broken(where, node, "a list is missing");
  std::vector<std::string> texts;
  for (const YAML::Node& item : node) {
    TRY(std::string text, read_text(item, where));
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<GlobSet> read_globs(const YAML::Node& node, std::string_view where) {
  TRY(const auto texts, read_texts(node, where));
  TRY(auto globs, parse_globs(texts, Case::Folded));
  GlobSet set;
  for (Glob& glob : globs) set.add(std::move(glob));
  return set;
}

Result<std::vector<RuleClass>> read_classes(const YAML::Node& node, std::string_view where) {
  TRY(const auto words, read_texts(node, where));
  std::vector<RuleClass> classes;
  for (const std::string& word : words) {
    const auto found = parse_rule_class(word);
    if (!found) return broken(where, node, found.error().message);
    classes.push_back(*found);
  }
  return classes;
}

// All proper prefixes of a pattern, by whole names. One of stars alone ("**", "*") is left out: it
// names nothing, and would make every link of a workspace wait.
Result<void> add_leads(const Glob& glob, GlobSet& leads) {
  const std::string_view pattern = glob.pattern();
  for (std::size_t slash = pattern.find('/'); slash != std::string_view::npos;
       slash = pattern.find('/', slash + 1)) {
    const std::string_view lead = pattern.substr(0, slash);
    if (lead.find_first_not_of("*/") == std::string_view::npos) continue;
    TRY(Glob parsed, Glob::parse(lead, Case::Folded));
    leads.add(std::move(parsed));
  }
  return {};
}

// One of the values in a table, by its word.
template <class Table>
Result<typename Table::value_type> read_word(const YAML::Node& node, std::string_view where,
                                             const Table& table, std::string_view what) {
  TRY(const std::string text, read_text(node, where));
  for (const auto value : table) {
    if (text == to_text(value)) return value;
  }
  return broken(where, node, fmt::format("unknown {} '{}'", what, printable(text)));
}

Result<Removals> read_removals(const YAML::Node& node, std::string_view where) {
  TRY(const std::string text, read_text(node, where));
  if (text == "hold") return Removals::Hold;
  if (text == "pass") return Removals::Pass;
  return broken(where, node, "removals are 'hold' or 'pass'");
}

// One rule with the examples that it must decide as the file says.
struct Draft {
  GateRule rule;
  std::vector<std::string> holds;
  std::vector<std::string> passes;
};

Result<void> read_field(const std::string& name, const YAML::Node& value, std::string_view where,
                        Draft& draft) {
  if (name == "name") {
    TRY(draft.rule.name, read_text(value, where));
  } else if (name == "when") {
    TRY(draft.rule.when, read_word(value, where, kConditions, "condition"));
  } else if (name == "class") {
    TRY(draft.rule.rule_class, read_word(value, where, kClasses, "class"));
  } else if (name == "act") {
    TRY(draft.rule.act, read_word(value, where, kActs, "act"));
  } else if (name == "removals") {
    TRY(draft.rule.removals, read_removals(value, where));
  } else if (name == "gathers") {
    TRY(draft.rule.gathers, read_classes(value, where));
  } else if (name == "links") {
    TRY(draft.rule.links, read_globs(value, where));
  } else if (name == "paths") {
    TRY(draft.rule.paths, read_globs(value, where));
  } else if (name == "except") {
    TRY(draft.rule.except, read_globs(value, where));
  } else if (name == "keys") {
    TRY(draft.rule.keys, read_texts(value, where));
  } else if (name == "why") {
    TRY(draft.rule.why, read_text(value, where));
  } else if (name == "holds") {
    TRY(draft.holds, read_texts(value, where));
  } else if (name == "passes") {
    TRY(draft.passes, read_texts(value, where));
  } else {
    return broken(where, value, fmt::format("unknown field '{}'", printable(name)));
  }
  return {};
}

Result<void> check_rule(const Draft& draft, const YAML::Node& node, std::string_view where) {
  const GateRule& rule = draft.rule;
  if (rule.name.empty() || rule.why.empty() || rule.paths.empty()) {
    return broken(where, node, "a rule needs a name, paths and a reason (why)");
  }
  const bool compares_keys =
      rule.when == Condition::GitConfigExecutes || rule.when == Condition::JsonKeysDiffer;
  if (compares_keys == rule.keys.empty()) {
    return broken(where, node,
                  "keys belong to git-config-executes and json-keys-differ, which need them");
  }
  if ((rule.act == RuleAct::Gather) == rule.gathers.empty()) {
    return broken(where, node, "gathers belongs to act: gather, and it needs it");
  }
  for (const std::string& path : draft.holds) {
    if (rule.covers(path)) continue;
    return broken(where, node, fmt::format("{} does not hold '{}'", rule.name, printable(path)));
  }
  for (const std::string& path : draft.passes) {
    if (!rule.covers(path)) continue;
    return broken(where, node, fmt::format("{} holds '{}'", rule.name, printable(path)));
  }
  return {};
}

Result<GateRule> read_rule(const YAML::Node& node, std::string_view where) {
  if (!node.IsMap()) return broken(where, node, "a rule is missing");
  Draft draft;
  std::set<std::string> seen;
  for (const auto& field : node) {
    TRY(const std::string name, read_text(field.first, where));
    if (!seen.insert(name).second) return broken(where, field.first, "a field is there twice");
    TRY_VOID(read_field(name, field.second, where, draft));
  }
  TRY_VOID(check_rule(draft, node, where));
  for (const Glob& glob : draft.rule.paths.globs()) TRY_VOID(add_leads(glob, draft.rule.leads));
  return std::move(draft.rule);
}

Result<GateRules> read_document(const YAML::Node& document, std::string_view where) {
  if (!document.IsMap() || document.size() != 2 || !document["version"] || !document["rules"]) {
    return broken(where, document, "a file of rules has 'version' and 'rules' and nothing else");
  }
  if (!document["version"].IsScalar() || document["version"].Scalar() != "1") {
    return fail(Code::Unsupported, "{}: only version 1 is known", where);
  }
  const YAML::Node rules = document["rules"];
  if (!rules.IsSequence() || rules.size() > kMostRules) {
    return broken(where, rules, "rules are a list, of 1000 at most");
  }
  GateRules found;
  for (const YAML::Node& node : rules) {
    TRY(GateRule rule, read_rule(node, where));
    TRY(found, extend_gate_rules(std::move(found), {rule}));
  }
  return found;
}

}  // namespace

std::string_view to_text(Condition condition) {
  switch (condition) {
    case Condition::Any: return "any";
    case Condition::LinkPointsOut: return "link-points-out";
    case Condition::SetId: return "set-id";
    case Condition::SpecialFile: return "special-file";
    case Condition::FileCapability: return "file-capability";
    case Condition::Executable: return "executable";
    case Condition::OpenedDirectory: return "opened-directory";
    case Condition::InHooksPath: return "in-hooks-path";
    case Condition::NotAGitRef: return "not-a-git-ref";
    case Condition::GitConfigExecutes: return "git-config-executes";
    case Condition::AttributesBind: return "attributes-bind";
    case Condition::JsonKeysDiffer: return "json-keys-differ";
    case Condition::ShadowsSource: return "shadows-source";
    case Condition::GitUnreadable: return "git-unreadable";
    case Condition::GitForgedObject: return "git-forged-object";
    case Condition::GitHiddenFile: return "git-hidden-file";
    case Condition::GitSubmoduleCommit: return "git-submodule-commit";
  }
  return "unknown";
}

std::string_view to_text(RuleClass rule_class) {
  switch (rule_class) {
    case RuleClass::Agents: return "agents";
    case RuleClass::Toolchain: return "toolchain";
    case RuleClass::Editor: return "editor";
    case RuleClass::Ci: return "ci";
    case RuleClass::Git: return "git";
    case RuleClass::StartUp: return "start-up";
    case RuleClass::Files: return "files";
  }
  return "unknown";
}

std::string_view to_text(RuleAct act) {
  switch (act) {
    case RuleAct::Hold: return "hold";
    case RuleAct::LeaveOut: return "leave-out";
    case RuleAct::Gather: return "gather";
  }
  return "unknown";
}

std::vector<std::string> rule_class_words() {
  std::vector<std::string> words;
  for (const RuleClass each : kClasses) words.emplace_back(to_text(each));
  return words;
}

Result<RuleClass> parse_rule_class(std::string_view word) {
  for (const RuleClass each : kClasses) {
    if (word == to_text(each)) return each;
  }
  return fail(Code::Invalid, "unknown class of rules '{}': there are {}", printable(word),
              fmt::join(rule_class_words(), ", "));
}

bool GateRule::covers(std::string_view path) const {
  return paths.matches(path) && !except.matches(path);
}

bool GateRule::covers_link(std::string_view path) const {
  return covers(path) || leads.matches(path);
}

const GateRule* find_rule(const GateRules& rules, Condition when) {
  const auto found = std::find_if(rules.begin(), rules.end(),
                                  [&](const GateRule& rule) { return rule.when == when; });
  return found == rules.end() ? nullptr : &*found;
}

Result<GateRules> parse_gate_rules(const std::string& text, std::string_view where) {
  if (text.size() > kLargestFile) return fail(Code::Exhausted, "{}: too large", where);
  // yaml-cpp throws; nothing of it leaves this function.
  try {
    return read_document(YAML::Load(text), where);
  } catch (const YAML::Exception& error) {
    return fail(Code::Invalid, "{}:{}: {}", where, error.mark.line + 1, printable(error.msg));
  }
}

Result<GateRules> builtin_gate_rules() {
  return parse_gate_rules(std::string(embedded_gate_rules()), "commit-gate.yaml");
}

Result<GateRules> extend_gate_rules(GateRules rules, const GateRules& more) {
  for (const GateRule& rule : more) {
    const bool is_taken = std::any_of(
        rules.begin(), rules.end(), [&](const GateRule& other) { return other.name == rule.name; });
    if (is_taken) {
      return fail(Code::Invalid, "two rules named '{}'", printable(rule.name));
    }
    rules.push_back(rule);
  }
  return rules;
}

}  // namespace glovebox::workspace
