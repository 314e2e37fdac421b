#include "guest/shell/shell_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace glovebox::guest {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Only bash looks for options in front of the code; dash takes `--` for a part of it.
std::string_view eval_words(ShellKind kind) {
  return kind == ShellKind::Bash ? "\\command eval -- " : "\\command eval ";
}

std::string assignments(const std::vector<std::string>& env) {
  std::string words;
  for (const std::string_view entry : env) {
    const std::size_t equals = entry.find('=');
    words += fmt::format("{}={} ", entry.substr(0, equals), quoted(entry.substr(equals + 1)));
  }
  return words;
}

}  // namespace

int mark_number(ShellKind kind) { return kind == ShellKind::Bash ? 59 : 9; }

std::vector<std::string> persistent_shell_argv(ShellKind kind, std::string_view file) {
  std::string name(file.substr(file.rfind('/') + 1));
  if (kind == ShellKind::Bash) {
    return {std::move(name), "--norc", "--noprofile", "--noediting", "-i", "+m", "+H"};
  }
  return {std::move(name), "-i", "+m"};
}

std::string first_line(ShellKind kind) {
  const std::string ready = fmt::format("\\command echo {} >&{}\n", kShellReady, mark_number(kind));
  if (kind != ShellKind::Bash) return "PS1= PS2=;" + ready;
  return "PS1= PS2=;unset PROMPT_COMMAND HISTFILE MAILCHECK;set +o history;"
         "shopt -u checkwinsize;" +
         ready;
}

std::string run_file_text(ShellKind kind, const ShellRunText& text) {
  const int mark = mark_number(kind);
  std::string go;
  if (!text.cwd.empty()) go = fmt::format("\\command cd {} &&", quoted(text.cwd));
  const std::string run = fmt::format("{}{}{}{} {}>&-", go, assignments(text.env), eval_words(kind),
                                      quoted(text.code), mark);
  const std::string error = text.error == text.output ? "&1" : quoted(text.error);
  const std::string open = fmt::format("\\command exec >{} 2>{}&&", quoted(text.output), error);
  if (text.input.empty()) return fmt::format("{}{} </dev/null\n", open, run);
  return fmt::format("{}{{ \\command echo {} >&{};{};}} <{}\n", open, kInputOpened, mark, run,
                     quoted(text.input));
}

namespace {

// The braces keep a trace (`set -x`) of this line out of the run's output.
std::string end_words(ShellKind kind, std::string_view nonce) {
  return fmt::format("{{ \\command echo {} $?>&{};}} 2>&-", nonce, mark_number(kind));
}

}  // namespace

std::string quiet_line(ShellKind kind, std::string_view nonce) {
  return fmt::format("\\command exec >/dev/null 2>&1;\\command echo {}{} >&{}\n", kShellQuiet,
                     nonce, mark_number(kind));
}

std::string run_lines(ShellKind kind, std::string_view run_file, std::string_view nonce) {
  // dash forgets the lines it has read ahead when an error throws it back, so for it they are one.
  const char end = kind == ShellKind::Bash ? '\n' : ';';
  return fmt::format("\\command . {}{}{}\n", run_file, end, end_words(kind, nonce));
}

std::string end_lines(ShellKind kind, std::string_view nonce) {
  // The empty lines end whatever line the interrupt has cut in two.
  return fmt::format("\n\n{};{}", end_words(kind, nonce), quiet_line(kind, nonce));
}

std::string snapshot_lines(ShellKind kind, std::string_view file, std::string_view nonce) {
  return fmt::format("\\command export -p >|{};\\command echo {} $?>&{}\n", file, nonce,
                     mark_number(kind));
}

std::string fresh_shell_text(ShellKind kind, std::string_view snapshot,
                             const std::vector<std::string>& env, std::string_view code) {
  std::string before;
  if (!snapshot.empty()) before = fmt::format("\\command . {} 2>/dev/null;", quoted(snapshot));
  return fmt::format("{}{}{}{}", before, assignments(env), eval_words(kind), quoted(code));
}

std::vector<std::string> fresh_shell_argv(ShellKind kind, std::string_view file, std::string text) {
  const std::string name(file.substr(file.rfind('/') + 1));
  if (kind == ShellKind::Bash) return {name, "--norc", "--noprofile", "-c", std::move(text), name};
  return {name, "-c", std::move(text), name};
}

std::string file_text(std::string_view file) { return fmt::format("\\command . {}", quoted(file)); }

std::string quoted(std::string_view text) {
  std::string word = "'";
  word.reserve(text.size() + 2);
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  word += '\'';
  return word;
}

bool is_assignment(std::string_view entry) {
  const std::string_view name = entry.substr(0, entry.find('='));
  return name.size() < entry.size() && !name.empty() && is_letter(name.front()) &&
         std::ranges::all_of(name, [](char c) { return is_letter(c) || is_digit(c); });
}

std::optional<Mark> parse_mark(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0) return std::nullopt;
  Mark mark{std::string(line.substr(0, space)), 0};
  const std::string_view number = line.substr(space + 1);
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), mark.status);
  if (error != std::errc() || end != number.data() + number.size() || mark.status > 255) {
    return std::nullopt;
  }
  return mark;
}

}  // namespace glovebox::guest
