// The parts of `glovebox session`. Each returns the exit code.
#pragma once

#include "base/result.h"
#include "cli/session/session_options.h"
#include "client/http_client.h"

#include <string>
#include <string_view>

namespace glovebox::app {

// 0, the run's own code, 1 when a commit is held, or kRefusedExit.
int session_command(const SessionOptions& options);

// The id of the session that a person means: an id, the beginning of one, a name, or "last".
Result<std::string> find_session(HttpClient& service, const std::string& named);
// /v1/isolated/session/ID followed by `what`.
std::string session_target(std::string_view id, std::string_view what);

Result<int> run_in_session(const SessionOptions& options);
Result<int> shell_in_session(const SessionOptions& options);

Result<int> recycle_session(const SessionOptions& options);
Result<int> fork_session(const SessionOptions& options);
Result<int> checkpoint_session(const SessionOptions& options);
Result<int> restore_session(const SessionOptions& options);
Result<int> send_session(const SessionOptions& options);
Result<int> receive_session(const SessionOptions& options);

Result<int> put_file(const SessionOptions& options);
Result<int> get_file(const SessionOptions& options);
Result<int> list_files(const SessionOptions& options);

}  // namespace glovebox::app
