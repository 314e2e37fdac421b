// What a session's shell would have to be given to go on elsewhere: its directory and the variables
// that it exports. Functions, options and variables that are not exported stay behind.
//
// Everything here was said by a box, so it is bounded, and used for nothing but to begin another
// box of the same authority with.
#pragma once

#include "session/box/box_session.h"

#include <string>
#include <string_view>
#include <vector>

namespace glovebox::session {

// All of the variables together; more is Code::Exhausted. The first frame to an agent holds them.
inline constexpr std::size_t kMaxShellBytes = 48 << 10;

struct ShellState {
  std::string cwd;  // empty: where sessions begin
  std::vector<plan::EnvEntry> env;
  friend bool operator==(const ShellState&, const ShellState&) = default;
};

// From the text that the question below prints: the directory and NAME=value, each with a zero byte
// after it. What a shell keeps for itself (PWD, SHLVL, ...) and names that are none are left out.
Result<ShellState> parse_shell_state(std::string_view text);

// Asks the session's shell, which must be idle and stays as it is.
asio::awaitable<Result<ShellState>> read_shell_state(BoxSession& session);
// Puts the shell of a box that has just begun into the directory; one that is not there is no harm.
asio::awaitable<void> enter_directory(BoxSession& session, std::string cwd);

}  // namespace glovebox::session
