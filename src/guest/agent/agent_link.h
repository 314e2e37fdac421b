// The supervisor's end of the line to a session agent.
//
// The agent runs inside the box, and the box's code may have taken it over. So every frame is
// hostile input: it is decoded strictly, compared with what was asked for, and believed no further.
// The first frame that does not fit is an error, and after an error the link is of no more use: the
// session ends. What the agent says can cost the supervisor one frame of memory, the descriptors of
// runs that it asked for, and nothing else. No path and no number of the agent's is ever used
// outside.
//
// Descriptors that come in must be pipes. They are opened again, so that the box has no hand on the
// description behind them: with a shared one it could switch off O_NONBLOCK and have the supervisor
// wait for ever.
//
// Nothing here blocks and no event loop is assumed: wait for fd() to be readable (and writable
// while wants_write()), call on_ready(), and act on the events. One thread.
#pragma once

#include "base/pipe.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "guest/protocol/entry.h"
#include "guest/protocol/protocol.h"
#include "guest/protocol/wire.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace glovebox::guest {

// The agent is there and works. The first event.
struct AgentReady {
  ShellKind shell = ShellKind::None;
};
// Over packets the run's pipes, none of which blocks: output, error (with RunIo::Pipes alone), and
// input if it was asked for and is still read. Over a byte stream they are empty, and AgentOutput
// follows.
struct RunBegun {
  Id run = 0;
  UniqueFd output;
  UniqueFd error;
  UniqueFd input;
};
// The run's own part is over. Over packets everything it printed is in the pipes by now: who reads
// them until nothing is there has it all. What it left in the background may print more.
struct RunOver {
  Id run = 0;
  RunEnded end;
};
// A whole run: it has begun, printed this and is over.
struct RunWhole {
  Id run = 0;
  RunEnded end;
  std::string output;
  std::string error;
};
// The request was not started.
struct RequestRefused {
  Id id = 0;
  Error error;
};
struct JobOver {
  Id job = 0;
  std::optional<Error> error;
  std::uint64_t count = 0;     // bytes, entries, replacements
  std::optional<Entry> entry;  // Info
  std::string hash;            // Hash
};
// Byte streams only. Give credit back when the bytes were used: give_credit().
struct AgentOutput {
  Id id = 0;
  Stream stream = Stream::Output;
  std::string bytes;
};
struct AgentOutputEnd {
  Id id = 0;
  Stream stream = Stream::Output;
};
// Byte streams only: so much more may be put in with write_input().
struct InputCredit {
  Id id = 0;
  std::uint64_t bytes = 0;
};
// The agent has closed the line. The last event.
struct AgentGone {};

using AgentEvent = std::variant<AgentReady, RunBegun, RunOver, RunWhole, RequestRefused, JobOver,
                                AgentOutput, AgentOutputEnd, InputCredit, AgentGone>;

class AgentLink {
 public:
  AgentLink(UniqueFd socket, Transport transport);

  BorrowedFd fd() const { return wire_.fd(); }
  bool wants_write() const { return wire_.wants_write(); }
  // Sends what waits and takes what came, a bounded number of frames at a time. Level-triggered: if
  // more is there, the socket stays readable.
  Result<std::vector<AgentEvent>> on_ready();

  // The first thing to say. `hello.version` is filled in.
  Result<void> greet(Hello hello);

  // The returned id names the run in everything that follows. Invalid requests are errors at once;
  // a second run for the persistent shell is Code::Exhausted until the first is over.
  Result<Id> start_run(StartRun run);
  Result<void> resize(Id run, std::uint16_t rows, std::uint16_t columns);
  Result<void> signal_run(Id run, int signal);
  Result<void> kill_run(Id run, std::chrono::milliseconds grace);

  // `data` is the agent's end of the job's pipe: for Read, List, Search and Pack the writing end,
  // for Write and Unpack the reading end, for the others none. None at all over a byte stream.
  Result<Id> start_job(const StartJob& job, UniqueFd data = {});
  Result<void> cancel_job(Id job);

  // Byte streams: bytes for a run or a job, within the credit; more is Code::Exhausted.
  Result<void> write_input(Id id, std::string_view bytes);
  Result<void> end_input(Id id);
  std::uint64_t input_credit(Id id) const;
  Result<void> give_credit(Id id, Stream stream, std::uint64_t bytes);

  Result<void> shut_down();

  // How many runs and jobs are under way.
  std::size_t under_way() const { return runs_.size() + jobs_.size(); }

 private:
  struct RunBook {
    StartRun asked;  // without the code
    bool begun = false;
    bool killed = false;
  };
  struct StreamBook {
    std::uint64_t credit = kInitialCredit;  // what the agent may still send
  };
  using StreamId = std::pair<Id, Stream>;

  Result<void> send(Id id, Request request, std::vector<UniqueFd> fds = {});
  Result<AgentEvent> take(ReceivedFrame received);
  Result<AgentEvent> take_body(Id id, const Ready& ready, std::vector<UniqueFd>& fds);
  Result<AgentEvent> take_body(Id id, const RunStarted& started, std::vector<UniqueFd>& fds);
  Result<AgentEvent> take_body(Id id, const RunEnded& ended, std::vector<UniqueFd>& fds);
  Result<AgentEvent> take_body(Id id, RunDone& done, std::vector<UniqueFd>& fds);
  Result<AgentEvent> take_body(Id id, JobEnded& ended, std::vector<UniqueFd>& fds);
  Result<AgentEvent> take_body(Id id, Refused& refused, std::vector<UniqueFd>& fds);
  Result<AgentEvent> take_body(Id id, Output& output, std::vector<UniqueFd>& fds);
  Result<AgentEvent> take_body(Id id, const OutputEnd& end, std::vector<UniqueFd>& fds);
  Result<AgentEvent> take_body(Id id, const Credit& credit, std::vector<UniqueFd>& fds);
  void close_book(Id run);
  void expect_streams(Id id, bool output, bool error, bool input);

  Wire wire_;
  bool greeted_ = false;
  bool ready_ = false;
  bool broken_ = false;
  Id last_id_ = kSessionId;
  Id shell_run_ = kSessionId;
  std::map<Id, RunBook> runs_;
  std::map<Id, JobKind> jobs_;
  std::map<StreamId, StreamBook> output_;
  std::map<Id, std::uint64_t> input_;
};

}  // namespace glovebox::guest
