// The lines that drive a persistent shell. Pure text, so that it can be read and tested.
//
// The shell is interactive in one respect only: it reads lines from a pipe that the agent writes,
// and an interrupt or an error throws it back to that loop with its variables, functions and
// directory kept. The pipe is its standard input, but no run ever sees it: a run's code is a quoted
// word in a file, executed by `command eval` with other descriptors.
//
//   line 1   . FILE                  the file holds: exec >OUT 2>ERR; [env] eval 'code' <IN MARK>&-
//   line 2   echo NONCE $? >&MARK    the end of the run, on a pipe that programs do not inherit
//
// A run that others follow through its pipes is followed by one more, so that they see the end:
//
//   line 3   exec >/dev/null 2>&1    and it says so on the same pipe
//
// The nonce is in no file and no variable, and the pipe for it is closed for the run's programs.
// Code that hunts for it in the shell's own memory can end its own run early, which harms only its
// own session.
//
// `command` keeps functions named like `eval`, `echo` or `exec` out of the way, makes assignments
// in front of eval last for the run alone, and keeps dash alive after a syntax error. The backslash
// keeps aliases out.
#pragma once

#include "guest/protocol/protocol.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::guest {

// What the shell says first of all. An interrupt before that would end it.
inline constexpr std::string_view kShellReady = "*";
// What the shell says when it has let go of a run's pipes. Until then it must find a reader, or a
// newline after an interrupt could end it. The run's nonce follows.
inline constexpr std::string_view kShellQuiet = ".";
// What the shell says once it has opened a run's input. Until then the agent keeps the pipe open:
// opening one without a writer would wait for ever, and the writer may be done already.
inline constexpr std::string_view kInputOpened = "+";

// The words of a run that go into its file. Everything is quoted here.
struct ShellRunText {
  std::string output;  // paths of the run's pipes
  std::string error;
  std::string input;             // empty: /dev/null
  std::string cwd;               // empty: stay
  std::vector<std::string> env;  // NAME=value with a name that a shell can assign
  std::string_view code;
};

// The number of the descriptor on which the shell reports the end of a run. dash knows one digit.
int mark_number(ShellKind kind);

// The arguments that start a persistent shell, and the first line it is given.
std::vector<std::string> persistent_shell_argv(ShellKind kind, std::string_view file);
std::string first_line(ShellKind kind);

std::string run_file_text(ShellKind kind, const ShellRunText& text);
// The two lines for one run, and the third.
std::string run_lines(ShellKind kind, std::string_view run_file, std::string_view nonce);
std::string quiet_line(ShellKind kind, std::string_view nonce);
// The end and the third line, for a shell that an interrupt may have robbed of its input.
std::string end_lines(ShellKind kind, std::string_view nonce);
// Writes the exported variables to a file, as commands that export them.
std::string snapshot_lines(ShellKind kind, std::string_view file, std::string_view nonce);

// What a fresh shell executes: the commands in `snapshot` if that is not empty, then `code` with
// `env`; and the arguments that make a shell execute a text.
std::string fresh_shell_text(ShellKind kind, std::string_view snapshot,
                             const std::vector<std::string>& env, std::string_view code);
std::vector<std::string> fresh_shell_argv(ShellKind kind, std::string_view file, std::string text);
// The text that executes a file, for a text too long to be an argument.
std::string file_text(std::string_view file);

// One shell word that means exactly `text`.
std::string quoted(std::string_view text);
// Whether a shell can assign NAME=value: the name is letters, digits and underscores.
bool is_assignment(std::string_view entry);

struct Mark {
  std::string nonce;
  std::uint32_t status = 0;
  bool operator==(const Mark&) const = default;
};
// "NONCE STATUS" without the newline.
std::optional<Mark> parse_mark(std::string_view line);

}  // namespace glovebox::guest
