#include "cli/completion/completion.h"

#include <fmt/format.h>

namespace glovebox::app {
namespace {

// The part of the script that does not depend on the words.
constexpr const char* kEngine = R"script(
# The words of the line before the cursor, without glovebox itself.
function __glovebox_typed
    set -l typed (commandline -opc)
    set -e typed[1]
    string join -- \n $typed
end

# True when the cursor is in the words of this command: 'policy show', or '' before any.
function __glovebox_at
    set -l typed (__glovebox_typed)
    contains -- -- $typed; and return 1
    set -l where
    set -l value_follows 0
    for word in $typed
        if test $value_follows = 1
            set value_follows 0
        else if string match -q -- '-*' $word
            contains -- "$where $word" $__glovebox_valued; and set value_follows 1
        else if contains -- (string trim -- "$where $word") $__glovebox_commands
            set where (string trim -- "$where $word")
        end
    end
    test "$where" = "$argv[1]"
end

function __glovebox_after_dashes
    contains -- -- (__glovebox_typed)
end

# A command of the system and its own words, after "--".
function __glovebox_system_command
    set -l typed (__glovebox_typed)
    set -l at (contains -i -- -- $typed)
    set -l rest
    test $at -lt (count $typed); and set rest (string escape -- $typed[(math $at + 1)..-1])
    complete -C (string join -- ' ' $rest (commandline -ct))
end

function __glovebox_layers
    set -l called (commandline -opc)[1]
    command $called layers 2>/dev/null | string replace -rf '^(\S+)  .*' '$1'
end

function __glovebox_workspaces
    set -l typed (commandline -ct)
    if string match -q -- '*:*' $typed
        for mode in $argv
            echo (string replace -r ':[^:]*$' '' -- $typed):$mode
        end
    else
        __fish_complete_directories $typed
    end
end

# "read=/us" goes on with files; before the "=" there are the kinds.
function __glovebox_terms
    set -l typed (commandline -ct)
    if string match -q -- '*=*' $typed
        set -l kind (string split -m 1 = -- $typed)
        for name in (__fish_complete_path $kind[2])
            echo "$kind[1]=$name"
        end
    else
        string join -- \n $argv
    end
end

complete -c glovebox -f
complete -c glovebox -n __glovebox_after_dashes -x -a '(__glovebox_system_command)'
)script";

// The text in single quotes as fish reads them.
std::string fish_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

std::string joined(const CompletionValue& value) {
  return fmt::format("{}", fmt::join(value.words, " "));
}

// The words of `complete` that offer such a value.
std::string offer(const CompletionValue& value) {
  using Form = CompletionValue::Form;
  switch (value.form) {
    case Form::Free: return "-f";
    case Form::Words: return fmt::format("-f -a '{}'", joined(value));
    case Form::Path: return "-F";
    case Form::Directory: return "-f -a '(__fish_complete_directories (commandline -ct))'";
    case Form::Workspace: return fmt::format("-f -a '(__glovebox_workspaces {})'", joined(value));
    case Form::Policy: return fmt::format("-F -a '{}'", joined(value));
    case Form::Variable: return "-f -a '(set -nx)'";
    case Form::Term: return fmt::format("-f -a '(__glovebox_terms {})'", joined(value));
    case Form::Layer: return fmt::format("-f -a '{} (__glovebox_layers)'", joined(value));
  }
  return "-f";
}

std::string option_line(const std::string& at, const CompletionOption& option) {
  std::string line = at;
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (option.value) line += " -r " + offer(*option.value);
  return line + " -d " + fish_quoted(option.about) + "\n";
}

std::string lines_of(const CompletionCommand& command) {
  const std::string at =
      fmt::format("complete -c glovebox -n '__glovebox_at \"{}\"'", command.path);
  std::string lines;
  for (const CompletionCommand& below : command.commands) {
    lines += fmt::format("{} -a {} -d {}\n", at, below.name, fish_quoted(below.about));
  }
  for (const CompletionOption& option : command.options) lines += option_line(at, option);
  for (const CompletionOperand& operand : command.operands) {
    lines += fmt::format("{} {}\n", at, offer(operand.value));
  }
  if (command.runs_command) lines += at + " -a '--' -d 'The command to run follows'\n";
  return lines;
}

}  // namespace

std::string fish_completion(const CompletionCommand& glovebox) {
  std::string lines;
  std::string commands;
  std::string valued;
  for (const CompletionCommand* command : all_commands(glovebox)) {
    lines += lines_of(*command);
    if (!command->path.empty()) commands += fmt::format(" '{}'", command->path);
    for (const CompletionOption& option : command->options) {
      if (!option.value) continue;
      for (const std::string& name : option.names) {
        valued += fmt::format(" '{} {}'", command->path, name);
      }
    }
  }
  return fmt::format(
      "# Completion of glovebox in fish. Load it with: glovebox completion fish | source\n\n"
      "set -g __glovebox_commands{}\nset -g __glovebox_valued{}\n{}{}",
      commands, valued, kEngine, lines);
}

}  // namespace glovebox::app
