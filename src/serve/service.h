// Everything that handlers share.
#pragma once

#include "base/result.h"
#include "http/auth.h"
#include "http/exchange.h"
#include "observe/log.h"
#include "observe/metrics.h"
#include "policy/policy_store.h"
#include "serve/bodies/host_rules.h"
#include "serve/config.h"
#include "session/manager/session_manager.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace glovebox::serve {

// How many denials are remembered, of all sessions together.
inline constexpr std::size_t kKeptDenials = 4'096;
// And of one session, so that one which is denied much does not push out what others were denied.
inline constexpr std::size_t kKeptDenialsOfOne = 512;

class ResumableRun;
// Who is making how many sessions.
using Rooms = std::map<std::string, std::size_t, std::less<>>;

struct Service {
  Service(asio::io_context& loop, const Config& settings, session::SessionManager& sessions,
          observe::LogLevel level)
      : io(loop), config(settings), manager(sessions), log(level) {}

  asio::io_context& io;
  const Config& config;
  Auth auth;
  HostRules rules;
  session::SessionManager& manager;
  std::shared_ptr<policy::PolicyStore> policies;
  observe::Log log;
  observe::Audit audit;
  observe::Metrics metrics;
  observe::MachineMeter meter;
  session::Abilities abilities;
  std::vector<std::string> environment;   // of the service, NAME=value
  std::vector<std::string> secret_names;  // variables that hold tokens
  std::deque<session::SessionEvent> denials;
  // Sessions that have had background runs, with the boxes those were in, oldest first: their
  // records are asked for after the box is gone too. A recycle or a fork gives a session a new box.
  std::map<std::string, std::vector<std::shared_ptr<session::LiveSession>>, std::less<>>
      with_background;
  // Runs whose clients may come back, by their ids (resumable_run.h).
  std::map<std::string, std::shared_ptr<ResumableRun>, std::less<>> resumable;
  // Sessions that are being made, by the caller's name (session_quota.h).
  std::shared_ptr<Rooms> rooms = std::make_shared<Rooms>();
  std::function<HttpCounts()> http_counts;
  asio::thread_pool pool{1};
};

// One request on its way through a handler.
struct Call {
  Service& service;
  Exchange& exchange;
  Request& request;
  Identity identity;
  std::string_view route;
};

// Answers a request: who asks, which route, is it allowed, and the handler. Never fails.
asio::awaitable<Response> dispatch(Service& service, Exchange& exchange);

// Tells metrics and audit about what happens to sessions. Once, after the start.
void observe_sessions(Service& service);

// What a reload of the policies did.
struct Reloaded {
  std::vector<policy::PolicyChange> changes;
  std::vector<session::NarrowedSession> sessions;
};
// Loads the policies of the directory again, and narrows the boxes that run under them. The old
// ones stay, and nothing happens to any box, when any is wrong.
Result<Reloaded> reload_policies(Service& service, egress::Existing existing);

// Runs something that blocks on the pool and comes back to the loop with what it returned.
template <class Function>
asio::awaitable<std::invoke_result_t<Function>> call_and_return(Function function) {
  co_return function();
}
template <class Function>
asio::awaitable<std::invoke_result_t<Function>> on_pool(Service& service, Function function) {
  co_return co_await asio::co_spawn(service.pool, call_and_return(std::move(function)),
                                    asio::use_awaitable);
}

}  // namespace glovebox::serve
