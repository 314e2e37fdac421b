#include "session/box/run.h"

#include "request/box_request.h"

namespace glovebox::session {

Result<guest::StartRun> to_start(const RunRequest& request) {
  guest::StartRun start;
  if (request.argv.empty() == request.code.empty()) {
    return fail(Code::Invalid, "a run needs either code or arguments");
  }
  const bool in_session_shell = request.argv.empty() && request.shell == RunShell::Session;
  if (in_session_shell && request.terminal) {
    return fail(Code::Invalid, "the session's shell has no terminal: use a shell of the run's own");
  }
  start.mode = guest::RunMode::Exec;
  if (request.argv.empty()) {
    start.mode = in_session_shell ? guest::RunMode::Shell : guest::RunMode::Fresh;
  }
  if (request.terminal) {
    start.io = guest::RunIo::Terminal;
    start.rows = request.terminal->rows;
    start.columns = request.terminal->columns;
  }
  if (!request.terminal && request.error_output == ErrorOutput::Merged) {
    start.io = guest::RunIo::Joined;
  }
  start.input = request.input;
  start.code = request.code;
  start.argv = request.argv;
  TRY_VOID(check_environment(request.env));
  for (const plan::EnvEntry& entry : request.env) {
    start.env.push_back(fmt::format("{}={}", entry.name, entry.value));
  }
  start.cwd = request.cwd;
  return start;
}

RunResult to_result(const guest::RunEnded& end) {
  RunResult result;
  const int signaled = end.kind == guest::EndKind::Signaled ? 128 : 0;
  result.code = static_cast<int>(end.value) + signaled;
  result.shell = end.shell;
  return result;
}

}  // namespace glovebox::session
