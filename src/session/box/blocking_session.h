// A session: a box that stays, with the session agent as its PID 1.
//
//   TRY(Session session, Session::start(launcher, plan, {.workspace = "/work"}));
//   TRY(const RunResult result, session.run({.code = "cd src && make"}, print));
//
// One thread; calls wait. A service with many sessions waits for all of them at once, with
// live_session.h.
//
// Everything that comes out of the box is hostile, its agent included: a frame that does not fit
// ends the session, and that is all it can do.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "guest/agent/agent_link.h"
#include "launch/launcher_client.h"
#include "plan/launch_plan.h"
#include "session/box/run.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::session {

// What the agent is told first.
struct SessionSettings {
  std::string workspace = "/home/box";  // relative paths and runs start here
  std::vector<std::string> env;         // NAME=value, for everything the session runs
  // Who answers for the box's network, when its plan has one. It outlives the session.
  launch::NetworkDelegate* network = nullptr;
  std::uint32_t keep_parked = 0;  // boxes like it that are begun ahead of need (launch/parked.h)
};

class Session {
 public:
  static constexpr std::chrono::seconds kStartTimeout{20};

  // Starts the box and waits for its agent. The plan is one for an agent.
  static Result<Session> start(launch::LauncherClient& launcher, const plan::LaunchPlan& plan,
                               const SessionSettings& settings);

  Session(Session&&) = default;
  Session& operator=(Session&&) = default;
  ~Session();  // ends the box

  guest::ShellKind shell() const { return shell_; }

  // Runs to the end. After an error the session is over, unless the code says that the request
  // itself was refused (Code::Invalid, Denied, Unsupported). Terminals, streamed input and merged
  // output are for a LiveSession (live_session.h).
  Result<RunResult> run(const RunRequest& request, const OutputSink& sink);

  // One file job (guest/protocol/protocol.h), with its data: `input` for Write and Unpack, and what
  // Read, List, Search and Pack give is handed to `sink`.
  Result<guest::JobOver> job(const guest::StartJob& job, std::string_view input,
                             const OutputSink& sink);

  // Ends the box and waits until nothing of it is left.
  Result<launch::RemoteEnd> stop();

 private:
  Session(launch::LauncherClient& launcher, launch::RemoteBox box);
  Result<void> await_ready();
  Result<std::vector<guest::AgentEvent>> take_events(std::chrono::milliseconds timeout);

  launch::LauncherClient* launcher_;
  std::uint64_t id_;
  UniqueFd init_;
  std::unique_ptr<guest::AgentLink> link_;
  guest::ShellKind shell_ = guest::ShellKind::None;
};

}  // namespace glovebox::session
