// A run in a session, over a WebSocket: bytes in, bytes out, and how it ended.
//
// The messages are those of GET /v1/isolated/session/{id}/pty (docs/reference/http-api.md).
#pragma once

#include "base/result.h"
#include "client/http_client.h"

#include <cstdint>
#include <string>

namespace glovebox::app {

enum class Relay : std::uint8_t {
  Pipes,     // standard input to the run, its output and errors apart
  Terminal,  // the same with a terminal of the run's own, which follows this one's size
};

struct RunToRelay {
  Relay relay = Relay::Pipes;
  std::string first{};  // a JSON message to begin with: what to run
};

// Relays until the run is over, and returns its exit code. SIGINT and SIGTERM are passed on to the
// run. A refusal is the service's own error.
Result<int> relay_run(HttpClient service, const std::string& target, const RunToRelay& run);

}  // namespace glovebox::app
