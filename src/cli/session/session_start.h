// The request for a session that a command line stands for.
#pragma once

#include "base/result.h"
#include "cli/session/session_options.h"

#include <string>

namespace glovebox::app {

// The body of POST /v1/isolated/session (schema/openapi.yaml). Paths are made absolute from here; a
// policy file is read here and sent along.
Result<std::string> session_request_json(const SessionOptions& options);

}  // namespace glovebox::app
