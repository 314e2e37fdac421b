// One run in a session: what is asked for, and how it ended.
#pragma once

#include "async/when_busy.h"
#include "guest/protocol/protocol.h"
#include "launch/exit_report.h"
#include "plan/spec.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::session {

// Which shell the code of a run is for.
enum class RunShell : std::uint8_t {
  Session,  // the session's own, which keeps directory, variables and functions; one at a time
  Own,      // a fresh one, with the session shell's directory and exported variables; in parallel
};

enum class ErrorOutput : std::uint8_t {
  Apart,   // a stream of its own
  Merged,  // one stream with the output, in the order in which it was written
};

struct RunRequest {
  std::string code;                 // for a shell, or
  std::vector<std::string> argv;    // a program, started without one; these run in parallel
  std::vector<plan::EnvEntry> env;  // for this run alone
  std::string cwd;                  // empty: the shell's own
  // SIGINT at the end of it, then SIGTERM, then SIGKILL, to everything the run started.
  std::optional<std::chrono::milliseconds> timeout;
  RunShell shell = RunShell::Session;
  WhenBusy when_busy = WhenBusy::Wait;
  ErrorOutput error_output = ErrorOutput::Apart;
  guest::RunInput input = guest::RunInput::Empty;
  // A terminal of the run's own. Output and error output are one stream then, and input is
  // streamed. Not in the session's shell.
  std::optional<plan::TerminalSize> terminal;
};

struct RunResult {
  int code = 0;  // as a shell counts: 128 + n after signal n
  guest::ShellState shell = guest::ShellState::None;
  bool timed_out = false;
  bool canceled = false;
  // Disk: it failed, and there was no room left in the layer. Its code is its own.
  std::optional<launch::LimitKind> limit{};
  friend bool operator==(const RunResult&, const RunResult&) = default;
};

// Takes output as it comes. While it works the run's pipe fills up, and then the run waits.
using OutputSink = std::function<Result<void>(guest::Stream, std::string_view)>;

// The grace between the first signal of a run that is to end, and the last.
inline constexpr std::chrono::milliseconds kRunGrace{2000};

// What the agent is asked for. Code::Invalid or Unsupported when the request contradicts itself.
Result<guest::StartRun> to_start(const RunRequest& request);
RunResult to_result(const guest::RunEnded& end);

}  // namespace glovebox::session
