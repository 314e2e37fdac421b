// The rules of the commit gate as values, read from policies/commit-gate.yaml.
//
// The file's own comment says what the rules mean. The reader is strict: an unknown field, a rule
// without a reason, a bad pattern, or an example that the rule does not decide as it says is an
// error, so that a typing mistake cannot quietly open the gate.
#pragma once

#include "workspace/glob.h"

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
};

std::string_view to_text(Condition condition);

struct GateRule {
  std::string name;
  Condition when = Condition::Any;
  std::vector<Glob> paths;
  std::vector<Glob> except;
  // The directories on the way to `paths`: ".venv" and ".venv/bin" for ".venv/bin/*". Made from
  // `paths` by the reader.
  std::vector<Glob> leads;
  std::vector<std::string> keys;  // GitConfigExecutes: the settings that count
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

// The text of policies/commit-gate.yaml, put in when the program is built.
std::string_view embedded_gate_rules();

}  // namespace glovebox::workspace
