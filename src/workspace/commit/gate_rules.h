// The rules of the commit gate as values, read from policies/commit-gate.yaml.
//
// The file's own comment says what the rules mean. The reader is strict: an unknown field, a rule
// without a reason, a bad pattern, or an example that the rule does not decide as it says is an
// error, so that a typing mistake cannot quietly open the gate.
#pragma once

#include "workspace/tree/path_glob.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::workspace {

enum class Condition : std::uint8_t {
  Any,
  LinkPointsOut,
  SetId,
  SpecialFile,
  FileCapability,
  Executable,
  OpenedDirectory,
  InHooksPath,
  NotAGitRef,
  GitConfigExecutes,
  AttributesBind,
  JsonKeysDiffer,
  ShadowsSource,
  // Judged by what is in the repository (gate_git.h).
  GitUnreadable,
  GitForgedObject,
  GitHiddenFile,
  GitSubmoduleCommit,
};
std::string_view to_text(Condition condition);

// What a rule is about. A person can let a class pass as a whole.
enum class RuleClass : std::uint8_t { Agents, Toolchain, Editor, Ci, Git, StartUp, Files };
std::string_view to_text(RuleClass rule_class);
// Code::Invalid names all there are.
Result<RuleClass> parse_rule_class(std::string_view word);
// Their words, in the order above.
std::vector<std::string> rule_class_words();

enum class RuleAct : std::uint8_t {
  Hold,      // the change waits until it is accepted
  LeaveOut,  // it stays behind: the host makes it again by itself
  Gather,    // what other rules hold in these places makes one question
};
std::string_view to_text(RuleAct act);

enum class Removals : std::uint8_t { Hold, Pass };

struct GateRule {
  std::string name;
  RuleClass rule_class = RuleClass::Files;
  RuleAct act = RuleAct::Hold;
  Removals removals = Removals::Hold;
  Condition when = Condition::Any;
  GlobSet paths;
  GlobSet except;
  // The directories on the way to `paths`: ".venv" and ".venv/bin" for ".venv/bin/*". Made from
  // `paths` by the reader.
  GlobSet leads;
  std::vector<std::string> keys;   // of a condition that compares settings: those that count
  std::vector<RuleClass> gathers;  // Gather: what is held by rules of these classes
  GlobSet links;                   // Gather: and links out of the workspace with these targets
  std::string why;

  bool covers(std::string_view path) const;
  // A link at the place of a directory on the way brings files of any other name under the rule's
  // names. So it counts as what it could lead to, and `except` does not help it.
  bool covers_link(std::string_view path) const;
};

using GateRules = std::vector<GateRule>;

// `where` names the text in messages.
Result<GateRules> parse_gate_rules(const std::string& text, std::string_view where);

// The rules that are part of the program.
Result<GateRules> builtin_gate_rules();

// Adds a project's rules. Rules are only added: a name that is taken is refused.
Result<GateRules> extend_gate_rules(GateRules rules, const GateRules& more);

// The first rule with the condition; nullptr when there is none.
const GateRule* find_rule(const GateRules& rules, Condition when);

// The text of policies/commit-gate.yaml, put in when the program is built.
std::string_view embedded_gate_rules();

}  // namespace glovebox::workspace
