// A request for a run, from its JSON, and what all ways to answer one have in common.
#pragma once

#include "serve/helpers.h"
#include "serve/sse.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace glovebox::serve {

struct RunOrder {
  session::RunRequest run;
  std::optional<std::string> input;
  bool background = false;
  // How long the run waits for a client that lost its connection; 0: it ends with the connection.
  std::chrono::seconds resume{0};
};

// The `envs` of a run. What is no variable is a problem of the body.
std::vector<plan::EnvEntry> read_variables(ObjectReader& reader, BodyProblems& problems);

Result<RunOrder, ApiError> read_run_order(const Call& call, const boost::json::value& body);

// Starts the run, hands it its input, and follows it to its end.
asio::awaitable<Result<session::RunResult>> carry_out(std::shared_ptr<session::LiveSession> live,
                                                      RunOrder order, session::OutputReader& sink);

// The last event of a run.
void write_end(EventWriter& writer, const Result<session::RunResult>& result);

// Which form of events the client asked for, by Accept or by the query.
EventForm form_of(const Request& request);
Response event_stream_head();
// The number in Last-Event-ID, or in the query; 0 without.
Result<std::uint64_t, ApiError> last_event_id(const Request& request);

}  // namespace glovebox::serve
