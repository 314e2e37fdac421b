// From the words of the public interface to the values that every face fills.
#pragma once

#include "glovebox/glovebox.h"
#include "session/manager/session_manager.h"

namespace glovebox::library {

// Code::Invalid for words that mean nothing; nothing is looked up.
Result<session::BoxRequest> to_request(const Request& request);
session::RunRequest to_run(const Command& command);
session::CommitRequest to_commit(const Selection& selection);

}  // namespace glovebox::library
