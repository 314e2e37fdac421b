#include "cli/completion/completion.h"
#include "guest/shell/shell_text.h"

#include <fmt/format.h>

namespace glovebox::app {
namespace {

// The part of the script that does not depend on the words. Names such as `path`, `commands` and
// `options` are zsh's own, so they are not used here.
constexpr const char* kEngine = R"script(
# FORM WORD...: what a value may be.
__glovebox_offer() {
  local form=$1
  local -a names
  shift
  case $form in
  words) compadd -- "$@" ;;
  path) _files ;;
  directory) _files -/ ;;
  workspace)
    if compset -P '*:'; then compadd -- "$@"; else _files -/ -S ''; fi
    ;;
  policy)
    compadd -- "$@"
    _files
    ;;
  variable) _parameters -g '*export*' ;;
  term)
    if compset -P '*='; then _files; else compadd -S '' -- "$@"; fi
    ;;
  layer)
    names=(${(f)"$("$__glovebox_called" layers 2>/dev/null | sed -n 's/^\([^ ]*\)  .*/\1/p')"})
    compadd -- "$@" $names
    ;;
  esac
}

_glovebox() {
  local where='' value='' repeats='' word='' __glovebox_called=$words[1]
  local -a subcommands flags operands
  integer i operand=0 dashes=${words[(i)--]}
  if ((dashes < CURRENT)); then
    shift $dashes words
    ((CURRENT -= dashes))
    _normal
    return
  fi
  __glovebox_words ''
  for ((i = 2; i < CURRENT; i++)); do
    word=$words[i]
    if [[ $word == -* ]]; then
      if [[ $word == *=* ]] || ! __glovebox_value "$where" "$word"; then continue; fi
      ((i += 1))
      if ((i == CURRENT)); then
        __glovebox_offer ${=value}
        return
      fi
    elif (($#subcommands > 0)); then
      where+=${where:+ }$word
      __glovebox_words "$where" || return
    else
      ((operand += 1))
    fi
  done
  word=$words[CURRENT]
  if [[ $word == --*=* ]] && __glovebox_value "$where" "${word%%=*}"; then
    compset -P 1 '*='
    __glovebox_offer ${=value}
  elif [[ $word == -* ]]; then
    _describe -o option flags
  elif (($#subcommands > 0)); then
    _describe command subcommands
  elif ((operand < $#operands)); then
    __glovebox_offer ${=operands[operand + 1]}
  elif [[ -n $repeats ]]; then
    __glovebox_offer ${=operands[-1]}
  else
    _describe -o option flags
  fi
}

# Sourced, it says what it completes; found on $fpath as _glovebox, it is the function's first call.
if [[ $funcstack[1] == _glovebox ]]; then
  _glovebox "$@"
else
  compdef _glovebox glovebox
fi
)script";

std::string described(const std::string& name, const std::string& about) {
  return "\n      " + guest::quoted(about.empty() ? name : name + ":" + about);
}

std::string words_of(const CompletionCommand& command) {
  std::string subcommands;
  for (const CompletionCommand& below : command.commands) {
    subcommands += described(below.name, below.about);
  }
  std::string flags;
  for (const CompletionOption& option : command.options) {
    for (const std::string& name : option.names) flags += described(name, option.about);
  }
  if (command.runs_command) flags += described("--", "The command to run follows");
  return fmt::format(
      "  {})\n    subcommands=({})\n    flags=({})\n    operands=({})\n    repeats={}\n    ;;\n",
      guest::quoted(command.path), subcommands, flags, operand_words(command),
      repeats_word(command));
}

}  // namespace

std::string zsh_completion(const CompletionCommand& glovebox) {
  std::string words;
  std::string values;
  for (const CompletionCommand* command : all_commands(glovebox)) {
    words += words_of(*command);
    values += value_cases(*command);
  }
  return fmt::format(
      "#compdef glovebox\n"
      "# Completion of glovebox in zsh. Load it with: source <(glovebox completion zsh)\n"
      "# or save it as _glovebox in a directory of $fpath.\n\n"
      "# The words of a command. False when there is no such command.\n"
      "__glovebox_words() {{\n  case $1 in\n{}  *) return 1 ;;\n  esac\n}}\n\n"
      "# The value of an option of a command. False when it takes none.\n"
      "__glovebox_value() {{\n  case \"$1 $2\" in\n{}  *) return 1 ;;\n  esac\n}}\n{}",
      words, values, kEngine);
}

}  // namespace glovebox::app
