// Follows one run or file job of a session from its start to its end.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "guest/agent/agent_link.h"
#include "session/box/blocking_session.h"

#include <chrono>
#include <optional>
#include <string_view>

namespace glovebox::session {

class RunWatch {
 public:
  RunWatch(guest::AgentLink& link, guest::Id id, std::optional<std::chrono::milliseconds> timeout,
           const OutputSink& sink);

  Result<RunResult> follow();

 private:
  using Clock = std::chrono::steady_clock;

  int poll_timeout() const;
  Result<void> wait();
  Result<void> take_event(guest::AgentEvent& event);
  // Reads what is there; at the end of the stream its descriptor is closed.
  Result<void> drain(UniqueFd& fd, guest::Stream stream);
  Result<void> stop_late_run();

  guest::AgentLink& link_;
  guest::Id id_;
  std::optional<Clock::time_point> deadline_;
  const OutputSink& sink_;
  UniqueFd output_;
  UniqueFd error_;
  std::optional<RunResult> result_;
  bool timed_out_ = false;
};

class JobWatch {
 public:
  JobWatch(guest::AgentLink& link, const OutputSink& sink) : link_(link), sink_(sink) {}

  Result<guest::JobOver> follow(const guest::StartJob& job, std::string_view input);

 private:
  Result<void> move_data(std::string_view& input, short revents);

  guest::AgentLink& link_;
  const OutputSink& sink_;
  UniqueFd data_;
  bool writes_ = false;
};

}  // namespace glovebox::session
