// Files of a session as strings.
#pragma once

#include "base/result.h"
#include "session/box/live_session.h"
#include "session/manager/session_manager.h"

#include <memory>
#include <string>

namespace glovebox::library {

// Code::Exhausted for a file of more than `most` bytes.
boost::asio::awaitable<Result<std::string>> read_whole(std::shared_ptr<session::LiveSession> live,
                                                       std::string path, std::size_t most);
// `bytes` must live until it is done.
boost::asio::awaitable<Result<void>> write_whole(std::shared_ptr<session::LiveSession> live,
                                                 std::string path, std::string_view bytes);

// The body of a diff; Code::Exhausted for one of more than `most` bytes.
Result<std::string> read_body(const session::DiffBody& body, std::size_t most);

}  // namespace glovebox::library
