#include "cli/completion/completion.h"

#include "authority/terms.h"
#include "base/result.h"
#include "guest/shell/shell_text.h"
#include "plan/make_plan.h"
#include "policy/policy.h"
#include "policy/templates.h"
#include "workspace/commit/gate_rules.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <span>

namespace glovebox::app {
namespace {

using Form = CompletionValue::Form;
using Words = std::vector<std::string>;

template <class Names>
Words to_words(const Names& names) {
  return Words(std::begin(names), std::end(names));
}

Words gate_rule_names() {
  const auto rules = workspace::builtin_gate_rules();
  GLOVEBOX_CHECK(rules.has_value());
  Words names;
  for (const workspace::GateRule& rule : *rules) names.push_back(rule.name);
  return names;
}

// "read=" for a kind that needs a value, "clock" for one that takes none.
Words term_beginnings() {
  Words words;
  for (const std::string_view word : authority::term_words()) {
    const bool complete = authority::parse_term(word, "").has_value();
    words.push_back(fmt::format("{}{}", word, complete ? "" : "="));
  }
  return words;
}

Words no_words() { return {}; }
Words interpreter_words() { return {"python", "bash"}; }
Words client_words() { return {"codex", "claude", "cursor", "vscode"}; }
Words sandbox_words() {
  return {"read-only", "workspace-write", "danger-full-access", "inherit", "inherit-codex"};
}
Words oversized_words() { return {"files", "pager"}; }
Words external_words() { return {"read-only", "full-access"}; }
Words only_last() { return {"last"}; }
Words template_words() { return to_words(policy::template_names()); }
Words mode_words() { return to_words(kWorkspaceModeNames); }
Words backend_words() { return to_words(kBackendNames); }
Words waivable_words() { return to_words(plan::waivable()); }

struct ValueOf {
  std::string_view name;  // of an option without its dashes, or of an operand
  Form form = Form::Free;
  Words (*words)() = no_words;
};

// Options of the same name mean the same kind of thing in every command.
constexpr auto kValues = std::to_array<ValueOf>({
    {"workspace", Form::Workspace, mode_words},
    {"read", Form::Path},
    {"write", Form::Path},
    {"exec", Form::Path},
    {"report", Form::Path},
    {"bind", Form::Path},
    {"LOCAL", Form::Path},
    {"config", Form::Path},
    {"key-file", Form::Path},
    {"socket", Form::Path},
    {"token-file", Form::Path},
    {"cert", Form::Path},
    {"key", Form::Path},
    {"ca", Form::Path},
    {"state", Form::Directory},
    {"gate", Form::Path},
    {"cwd", Form::Directory},
    {"policy", Form::Policy, template_words},
    {"POLICY", Form::Policy, template_words},
    {"FILE", Form::Policy, template_words},
    {"A", Form::Policy, template_words},
    {"B", Form::Policy, template_words},
    {"env", Form::Variable},
    {"allow", Form::Term, term_beginnings},
    {"deny", Form::Term, term_beginnings},
    {"ask", Form::Term, term_beginnings},
    {"backend", Form::Words, backend_words},
    {"interpreter", Form::Words, interpreter_words},
    {"client", Form::Words, client_words},
    {"sandbox", Form::Words, sandbox_words},
    {"oversized-output", Form::Words, oversized_words},
    {"external", Form::Words, external_words},
    {"python", Form::Path},
    {"add-writable-root", Form::Directory},
    {"checkpoint-dir", Form::Directory},
    {"debug-dir", Form::Directory},
    {"waive", Form::Words, waivable_words},
    {"accept-rule", Form::Words, gate_rule_names},
    {"accept-class", Form::Words, workspace::rule_class_words},
    {"LAYER", Form::Layer, only_last},
    {"SESSION", Form::Layer, only_last},
    {"remove", Form::Layer},
    {"from", Form::Layer, only_last},
});

// Amounts, names and patterns that only the caller knows.
constexpr auto kFree = std::to_array<std::string_view>({
    "if-policy",    "memory",     "pids",    "cpu-time", "cpus",     "wall",
    "output-limit", "open-files", "disk",    "inodes",   "hostname", "uid",
    "gid",          "connect",    "import",  "only",     "reject",   "accept",
    "publish",      "resolver",   "listen",  "name",     "NAME",     "PATH",
    "idle",         "label",      "timeout", "depth",    "arg",      "add-allowed-domain",
    "count",        "limit",      "tenant",  "c",        "ADDRESS",  "max-size",
    "peer-name",    "class",
});

// These run what follows "--"; the words are split off before CLI11 sees them.
constexpr std::array<std::string_view, 4> kRunCommands{"run", "explain", "session run",
                                                       "session send"};

// The set of a CLI::IsMember, which prints itself as "{yaml,json}"; empty when there is none.
Words closed_set(CLI::Option& option) {
  std::string text;
  try {
    text = option.get_validator(0)->get_description();
  } catch (const CLI::OptionNotFound&) {
    return {};
  }
  if (!text.starts_with('{') || !text.ends_with('}')) return {};
  return CLI::detail::split(text.substr(1, text.size() - 2), ',');
}

// The scripts put words where a shell would expand them.
void check_words_are_plain(const Words& words) {
  for (const std::string& word : words) {
    GLOVEBOX_CHECK(!word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyz"
                                                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                           "0123456789-_.=") == std::string::npos);
  }
}

CompletionValue known_value(const std::string& name) {
  if (std::ranges::find(kFree, name) != kFree.end()) return {Form::Free, {}};
  const auto* known = std::ranges::find(kValues, name, &ValueOf::name);
  if (known == kValues.end()) {
    throw Bug{fmt::format("completion.cpp does not say what '{}' takes", name)};
  }
  return {known->form, known->words()};
}

CompletionValue describe_value(CLI::Option& option) {
  CompletionValue value{Form::Words, closed_set(option)};
  if (value.words.empty()) value = known_value(option.get_single_name());
  check_words_are_plain(value.words);
  return value;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

CompletionOption describe_option(CLI::Option& option) {
  CompletionOption described;
  for (const std::string& name : option.get_lnames()) described.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) described.names.push_back("-" + name);
  described.about = option.get_description();
  if (takes_value(option)) described.value = describe_value(option);
  return described;
}

bool has_option(const CompletionCommand& command, const CompletionOption& option) {
  return std::ranges::any_of(command.options,
                             [&](const auto& known) { return known.names == option.names; });
}

void add_options(CLI::App& app, CompletionCommand& command) {
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) {
      CompletionOption described = describe_option(*option);
      // A group of options has --help too.
      if (!has_option(command, described)) command.options.push_back(std::move(described));
      continue;
    }
    const bool repeats = option->get_items_expected_max() >= CLI::detail::expected_max_vector_size;
    command.operands.push_back({describe_value(*option), repeats});
  }
}

CompletionCommand describe(CLI::App& app, const std::string& parent) {
  CompletionCommand command;
  command.name = app.get_name();
  command.path = parent.empty() ? command.name : parent + " " + command.name;
  command.about = app.get_description();
  command.runs_command = std::ranges::find(kRunCommands, command.path) != kRunCommands.end();
  add_options(app, command);
  for (CLI::App* below : app.get_subcommands(std::function<bool(CLI::App*)>())) {
    // A group of options is an app without a name to CLI11; its options are the command's.
    if (below->get_name().empty()) {
      add_options(*below, command);
    } else if (!below->get_group().empty()) {  // without one glovebox itself starts it
      command.commands.push_back(describe(*below, command.path));
    }
  }
  return command;
}

void collect(const CompletionCommand& command, std::vector<const CompletionCommand*>& found) {
  found.push_back(&command);
  for (const CompletionCommand& below : command.commands) collect(below, found);
}

}  // namespace

CompletionCommand describe_words(CLI::App& app) {
  CompletionCommand top;
  top.about = app.get_description();
  add_options(app, top);
  for (CLI::App* command : app.get_subcommands(std::function<bool(CLI::App*)>())) {
    top.commands.push_back(describe(*command, ""));
  }
  return top;
}

std::vector<const CompletionCommand*> all_commands(const CompletionCommand& command) {
  std::vector<const CompletionCommand*> found;
  collect(command, found);
  return found;
}

std::string to_text(const CompletionValue& value) {
  constexpr std::array<std::string_view, 9> kForms{
      "free", "words", "path", "directory", "workspace", "policy", "variable", "term", "layer"};
  std::string text(kForms.at(static_cast<std::size_t>(value.form)));
  for (const std::string& word : value.words) text += " " + word;
  return text;
}

std::string operand_words(const CompletionCommand& command) {
  Words words;
  for (const CompletionOperand& operand : command.operands) {
    words.push_back(guest::quoted(to_text(operand.value)));
  }
  return fmt::format("{}", fmt::join(words, " "));
}

std::string repeats_word(const CompletionCommand& command) {
  return !command.operands.empty() && command.operands.back().repeats ? "1" : "";
}

std::string value_cases(const CompletionCommand& command) {
  std::string lines;
  for (const CompletionOption& option : command.options) {
    if (!option.value) continue;
    for (const std::string& name : option.names) {
      lines += fmt::format("  {}) value={} ;;\n", guest::quoted(command.path + " " + name),
                           guest::quoted(to_text(*option.value)));
    }
  }
  return lines;
}

}  // namespace glovebox::app
