// What a shell needs to complete the words of `glovebox`, taken from the CLI11 app that parses
// them.
//
// A script is made in two steps: describe_words() turns the app into plain values, and one writer
// for each shell turns those into text. The names and their descriptions are the app's, and closed
// sets of values come from the code that checks them, so a script is never behind the program that
// prints it. What kind of thing an option's value is, CLI11 does not know: a table in
// completion.cpp says it, and an option that the table lacks is a Bug, which every test of a script
// finds.
#pragma once

#include "cli/cli.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::app {

// The value of an option, or an operand.
struct CompletionValue {
  enum class Form : std::uint8_t {
    Free,   // nothing can be offered
    Words,  // one of `words`
    Path,   // a file or a directory
    Directory,
    Workspace,  // a directory, then one of `words` after a colon
    Policy,     // one of `words`, or a file
    Variable,   // a variable of the caller's environment
    Term,       // one of `words`; one that ends in "=" goes on with a path
    Layer,      // one of `words`, or what `glovebox layers` lists
  };

  Form form = Form::Free;
  std::vector<std::string> words;  // safe in every shell without quotes
};

struct CompletionOption {
  std::vector<std::string> names;  // "--workspace", "-w"
  std::string about;
  std::optional<CompletionValue> value;  // nothing for a flag
};

struct CompletionOperand {
  CompletionValue value;
  bool repeats = false;  // takes all words that follow
};

struct CompletionCommand {
  std::string path;  // "policy show"; empty for `glovebox` itself
  std::string name;  // "show"
  std::string about;
  bool runs_command = false;  // a command to run follows after "--"
  std::vector<CompletionOption> options;
  std::vector<CompletionOperand> operands;
  std::vector<CompletionCommand> commands;
};

// `app` must have all options of all its commands.
CompletionCommand describe_words(CLI::App& app);

// Scripts to be sourced by the shell.
std::string bash_completion(const CompletionCommand& glovebox);
std::string zsh_completion(const CompletionCommand& glovebox);
std::string fish_completion(const CompletionCommand& glovebox);

// `command` and everything below it, parents first.
std::vector<const CompletionCommand*> all_commands(const CompletionCommand& command);

// Parts of the scripts for bash and zsh, which have the same shape.
//
// "path", or the form and its words: "words bash zsh fish".
std::string to_text(const CompletionValue& value);
// The values of all operands, quoted; "1" when the last of them repeats, else nothing.
std::string operand_words(const CompletionCommand& command);
std::string repeats_word(const CompletionCommand& command);
// "'run --read') value='path' ;;", a line for each name of each option that takes a value.
std::string value_cases(const CompletionCommand& command);

}  // namespace glovebox::app
