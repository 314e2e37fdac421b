// A session: a box that stays, with the session agent as its PID 1.
//
//   TRY(Session session, Session::start(launcher, plan, {.workspace = "/work"}));
//   TRY(const RunResult result, session.run({.code = "cd src && make"}, print));
//
// One thread; calls wait. A service with many sessions waits for all of them at once and uses the
// link (guest/agent_link.h) the same way.
//
// Everything that comes out of the box is hostile, its agent included: a frame that does not fit
// ends the session, and that is all it can do.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "guest/agent_link.h"
#include "launch/client.h"
#include "plan/launch_plan.h"

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
  launch::NetworkCompanion* network = nullptr;
};

struct RunRequest {
  std::string code;               // for the session's shell, or
  std::vector<std::string> argv;  // a program, started without a shell
  std::vector<std::string> env;   // NAME=value, for this run alone
  std::string cwd;
  std::optional<std::chrono::milliseconds> timeout;
};

struct RunResult {
  int code = 0;  // as a shell counts: 128 + n after signal n
  guest::ShellState shell = guest::ShellState::None;
  bool timed_out = false;
  friend bool operator==(const RunResult&, const RunResult&) = default;
};

// Takes output as it comes. While it works the run's pipe fills up, and then the run waits.
using OutputSink = std::function<Result<void>(guest::Stream, std::string_view)>;

class Session {
 public:
  // The grace between the first signal of a run that has used up its time, and the last.
  static constexpr std::chrono::milliseconds kGrace{2000};
  static constexpr std::chrono::seconds kStartTimeout{20};

  // Starts the box and waits for its agent. The plan is one for an agent.
  static Result<Session> start(launch::LauncherClient& launcher, const plan::LaunchPlan& plan,
                               const SessionSettings& settings);

  Session(Session&&) = default;
  Session& operator=(Session&&) = default;
  ~Session();  // ends the box

  guest::ShellKind shell() const { return shell_; }

  // Runs to the end. After an error the session is over, unless the code says that the request
  // itself was refused (Code::Invalid, Denied).
  Result<RunResult> run(const RunRequest& request, const OutputSink& sink);

  // One file job (guest/protocol.h), with its data: `input` for Write and Unpack, and what Read,
  // List, Search and Pack give is handed to `sink`.
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
