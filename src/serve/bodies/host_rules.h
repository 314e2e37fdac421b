// What a session may ask of this host: which directories it may be handed.
//
// Paths are compared as the kernel would walk them: resolved, and component by component, so that
// neither "..", a link, nor a name that merely begins alike passes. What was resolved is what is
// handed on. These functions look at the disk; they run on the pool.
#pragma once

#include "serve/bodies/create_body.h"

#include <string>
#include <vector>

namespace glovebox::serve {

struct HostRules {
  std::vector<std::string> allowed_writable;
  std::vector<std::string> allowed_workspaces;  // empty: any
  // Directories and files that no box may see: state, sockets, tokens, settings.
  std::vector<std::string> own;
  std::string shared_tmp;
};

// Checks the order, resolves its paths and adds what its profile means. 400 RUNTIME_ERROR for a
// path that is not allowed.
Result<void, ApiError> apply_host_rules(const HostRules& rules, CreateOrder& order);

// The same for a request that was allowed before and is about to get another box: its paths are
// resolved, the directory that its profile meant is among its binds, and every path must still be
// what it leads to. Code::Denied, with the path.
Result<void> check_host_rules(const HostRules& rules, const session::BoxRequest& request);

}  // namespace glovebox::serve
