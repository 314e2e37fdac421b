// The handlers of routes about the state of sessions, and what they share with others.
#pragma once

#include "http/router.h"
#include "serve/service.h"

#include <string>

namespace glovebox::serve {

asio::awaitable<Answer> recycle_session(Call& call);
asio::awaitable<Answer> fork_session(Call& call);
asio::awaitable<Answer> checkpoint_session(Call& call);
asio::awaitable<Answer> restore_session(Call& call);

// Another session than the route's, that the caller may see: 404 SESSION_NOT_FOUND otherwise.
Result<session::SessionInfo, ApiError> find_other_session(const Call& call, const std::string& id);

}  // namespace glovebox::serve
