#include "cli/completion/completion.h"
#include "guest/shell/shell_text.h"

#include <fmt/format.h>

namespace glovebox::app {
namespace {

// The part of the script that does not depend on the words.
//
// Bash splits words at the characters of COMP_WORDBREAKS, '=' and ':' among them, so "-w dir:ro"
// and
// "--format=json" arrive in pieces. They are put together first; what is offered is cut again,
// since Bash replaces only the last piece.
constexpr const char* kEngine = R"script(
# The pieces of COMP_WORDS as the words that were typed: sets words and cword.
__glovebox_join() {
  local i joining=
  words=("${COMP_WORDS[0]}") cword=0
  for ((i = 1; i < ${#COMP_WORDS[@]}; i++)); do
    if ((i > 1)) && [[ ${COMP_WORDS[i]} == [=:]* ]]; then
      words[-1]+=${COMP_WORDS[i]} joining=1
    elif [[ -n $joining ]]; then
      words[-1]+=${COMP_WORDS[i]} joining=
    else
      words+=("${COMP_WORDS[i]}")
    fi
    if ((i == COMP_CWORD)); then cword=$((${#words[@]} - 1)); fi
  done
}

# How the line is shown is asked of a real completion only; elsewhere there is nothing to ask.
__glovebox_show() { compopt -o "$1" 2>/dev/null || true; }

# BEFORE TYPED WORD...: the words that begin with TYPED, each after BEFORE.
__glovebox_add_words() {
  local before=$1 typed=$2 word
  shift 2
  for word in "$@"; do
    if [[ $word == "$typed"* ]]; then COMPREPLY+=("$before$word"); fi
  done
}

# BEFORE TYPED [-d]: the files (or directories) that begin with TYPED.
__glovebox_add_files() {
  local name
  __glovebox_show filenames
  while IFS= read -r name; do COMPREPLY+=("$1$name"); done < <(compgen "${3:--f}" -- "$2")
}

# BEFORE TYPED FORM WORD...: what a value may be, each after BEFORE.
__glovebox_offer() {
  local before=$1 typed=$2 form=$3 names
  shift 3
  case $form in
  words) __glovebox_add_words "$before" "$typed" "$@" ;;
  path) __glovebox_add_files "$before" "$typed" ;;
  directory) __glovebox_add_files "$before" "$typed" -d ;;
  workspace)
    if [[ $typed == *:* ]]; then
      __glovebox_add_words "$before${typed%:*}:" "${typed##*:}" "$@"
    else
      __glovebox_add_files "$before" "$typed" -d
    fi
    ;;
  policy)
    __glovebox_add_files "$before" "$typed"
    __glovebox_add_words "$before" "$typed" "$@"
    ;;
  variable)
    mapfile -t names < <(compgen -e)
    __glovebox_add_words "$before" "$typed" "${names[@]}"
    ;;
  term)
    if [[ $typed == *=* ]]; then
      __glovebox_add_files "$before${typed%%=*}=" "${typed#*=}"
    else
      __glovebox_show nospace
      __glovebox_add_words "$before" "$typed" "$@"
    fi
    ;;
  layer)
    mapfile -t names < <("${COMP_WORDS[0]}" layers 2>/dev/null | sed -n 's/^\([^ ]*\)  .*/\1/p')
    __glovebox_add_words "$before" "$typed" "$@" "${names[@]}"
    ;;
  esac
}

# After "--", which is word $1: a command of the system and its own words.
__glovebox_system_command() {
  if declare -F _command_offset >/dev/null; then
    _command_offset "$(($1 + 1))"
  elif ((COMP_CWORD == $1 + 1)); then
    mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
  else
    __glovebox_add_files "" "${COMP_WORDS[COMP_CWORD]}"
  fi
}

# The word under the cursor, after the words before it have been read.
__glovebox_current() {
  local typed=$1
  if [[ $typed == --*=* ]] && __glovebox_value "$command" "${typed%%=*}"; then
    # shellcheck disable=SC2086  # a form and its words
    __glovebox_offer "${typed%%=*}=" "${typed#*=}" $value
  elif [[ $typed == -* ]]; then
    __glovebox_add_words "" "$typed" "${flags[@]}"
  elif ((${#subcommands[@]} > 0)); then
    __glovebox_add_words "" "$typed" "${subcommands[@]}"
  elif ((operand < ${#operands[@]})); then
    # shellcheck disable=SC2086
    __glovebox_offer "" "$typed" ${operands[operand]}
  elif [[ -n $repeats ]]; then
    # shellcheck disable=SC2086
    __glovebox_offer "" "$typed" ${operands[-1]}
  else
    __glovebox_add_words "" "$typed" "${flags[@]}"
  fi
}

# Reads the words before the cursor and offers what fits. False when a word is no command.
__glovebox_complete() {
  local command='' operand=0 value word i
  local -a subcommands flags operands
  local repeats
  __glovebox_words ''
  for ((i = 1; i < cword; i++)); do
    word=${words[i]}
    if [[ $word == -* ]]; then
      if [[ $word == *=* ]] || ! __glovebox_value "$command" "$word"; then continue; fi
      i=$((i + 1))
      if ((i == cword)); then
        # shellcheck disable=SC2086
        __glovebox_offer "" "${words[cword]}" $value
        return
      fi
    elif ((${#subcommands[@]} > 0)); then
      command+=${command:+ }$word
      __glovebox_words "$command" || return
    else
      operand=$((operand + 1))
    fi
  done
  __glovebox_current "${words[cword]}"
}

_glovebox() {
  local i cword whole last
  local -a words
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      __glovebox_system_command "$i"
      return
    fi
  done
  __glovebox_join
  __glovebox_complete || return
  # Bash replaces the text after the last break alone.
  whole=${words[cword]} last=${words[cword]}
  if [[ $COMP_WORDBREAKS == *=* ]]; then last=${last##*=}; fi
  if [[ $COMP_WORDBREAKS == *:* ]]; then last=${last##*:}; fi
  COMPREPLY=("${COMPREPLY[@]#"${whole%"$last"}"}")
}

complete -F _glovebox glovebox
)script";

std::string words_of(const CompletionCommand& command) {
  std::vector<std::string> subcommands;
  for (const CompletionCommand& below : command.commands) subcommands.push_back(below.name);
  std::vector<std::string> flags;
  for (const CompletionOption& option : command.options) {
    flags.insert(flags.end(), option.names.begin(), option.names.end());
  }
  if (command.runs_command) flags.emplace_back("--");
  return fmt::format("  {}) subcommands=({}) flags=({}) operands=({}) repeats={} ;;\n",
                     guest::quoted(command.path), fmt::join(subcommands, " "),
                     fmt::join(flags, " "), operand_words(command), repeats_word(command));
}

}  // namespace

std::string bash_completion(const CompletionCommand& glovebox) {
  std::string words;
  std::string values;
  for (const CompletionCommand* command : all_commands(glovebox)) {
    words += words_of(*command);
    values += value_cases(*command);
  }
  return fmt::format(
      "# Completion of glovebox in bash. Load it with: source <(glovebox completion bash)\n\n"
      "# The words of a command. False when there is no such command.\n"
      "__glovebox_words() {{\n  case $1 in\n{}  *) return 1 ;;\n  esac\n}}\n\n"
      "# The value of an option of a command. False when it takes none.\n"
      "__glovebox_value() {{\n  case \"$1 $2\" in\n{}  *) return 1 ;;\n  esac\n}}\n{}",
      words, values, kEngine);
}

}  // namespace glovebox::app
