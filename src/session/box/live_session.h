// A session among many, on one event loop.
//
//   const auto run = co_await session->run(request, sink);
//
// Everything here belongs to the loop's thread. Nothing blocks: a coroutine that waits for the box
// leaves the loop to the others, and a sink that takes its time slows down its own run only,
// because what it has not taken stays in the box's pipe.
//
// Everything that comes out of the box is hostile, its agent included (guest/agent/agent_link.h). A
// frame that does not fit ends this session: every coroutine that waits for it gets an error that
// says why, the box is killed, and its layers are kept.
//
// Cancelling a coroutine here (asio's cancellation, such as by `||` or a cancellation signal) ends
// what it was doing in the box: the run is killed, the file job given up. The session stays usable.
#pragma once

#include "async/semaphore.h"
#include "base/result.h"
#include "guest/agent/agent_link.h"
#include "session/box/background.h"
#include "session/box/file_job.h"
#include "session/box/run.h"
#include "session/store/session_info.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::session {

namespace asio = boost::asio;

// Takes what a run prints. Nothing more is read from the run until the returned coroutine is done.
// An error ends the run: its reader is gone.
class OutputReader {
 public:
  virtual ~OutputReader() = default;
  virtual asio::awaitable<Result<void>> take(guest::Stream stream, std::string_view bytes) = 0;
};

// A run that has begun, for callers that do more than read its output. Destroying the last pointer
// to one that is not over cancels it.
class LiveRun {
 public:
  virtual ~LiveRun() = default;

  // Counts the session's runs from 1.
  virtual std::uint64_t number() const = 0;

  // Hands all output to `reader` and waits for the end. Once, by one coroutine. After a timeout or
  // cancel() it still returns a result, which says so. An error of the reader, and cancellation of
  // the coroutine, begin to kill the run and are returned as an error at once; the session's shell
  // is free again when the run is over.
  virtual asio::awaitable<Result<RunResult>> follow(OutputReader& reader) = 0;

  // Input, for a run that asked for it. Waits until the run's pipe has taken all of it. A run that
  // no longer reads is Code::Os with EPIPE.
  virtual asio::awaitable<Result<void>> write_input(std::string_view bytes) = 0;
  virtual void end_input() = 0;

  virtual Result<void> resize(plan::TerminalSize size) = 0;
  virtual Result<void> signal(int signal) = 0;
  // Begins the ladder of signals. follow() returns when it has done its work.
  virtual void cancel() = 0;
};

class LiveSession : public std::enable_shared_from_this<LiveSession> {
 public:
  // Called once, on the loop, when the session is over for whatever reason.
  using OnEnd = std::function<void(const SessionEnd&)>;
  // Called on the loop when a run begins or ends.
  using OnRun = std::function<void(const RunRecord&)>;

  LiveSession(const LiveSession&) = delete;
  LiveSession& operator=(const LiveSession&) = delete;
  virtual ~LiveSession() = default;

  virtual guest::ShellKind shell() const = 0;
  virtual bool is_alive() const = 0;
  // Why it is over; nothing while it is alive.
  virtual const std::optional<SessionEnd>& end() const = 0;
  // Runs, background runs and file jobs that are under way, those that wait for the shell included.
  virtual std::size_t under_way() const = 0;

  // Waits for the shell if it must, and for the run to begin. What the box refuses is an error, and
  // the session goes on: Code::Invalid, Denied, NotFound, Unsupported, Exhausted.
  virtual asio::awaitable<Result<std::shared_ptr<LiveRun>>> start(RunRequest request) = 0;

  // start() and follow() in one. The reader must live until this is done.
  asio::awaitable<Result<RunResult>> run(RunRequest request, OutputReader& reader);

  // Background runs: in a shell of their own, without input, with the output kept outside the box
  // in a file that the box cannot name. Their timeout and input are ignored. They end with the
  // session, and their records live as long as it does.
  virtual asio::awaitable<Result<BackgroundStatus>> start_background(RunRequest request) = 0;
  virtual Result<BackgroundStatus> background(std::string_view run_id) const = 0;
  virtual std::vector<BackgroundStatus> background_runs() const = 0;
  // At most `most` bytes from the cursor on; what the spool no longer has is skipped.
  virtual Result<BackgroundLog> background_log(std::string_view run_id, std::uint64_t cursor,
                                               std::size_t most) const = 0;
  virtual Result<void> kill_background(std::string_view run_id) = 0;
  // What background runs print has one bound for a session, so its boxes share it: this one and
  // one that it had before.
  void share_spools(const LiveSession& older);

  // Sends a signal to the run that has the session's shell. Code::NotFound when it has none.
  virtual Result<void> signal_shell_run(int signal) = 0;

  // A file job with data (Read, List, Search, Pack, Write, Unpack), as a stream; see file_job.h.
  virtual asio::awaitable<Result<std::unique_ptr<FileJob>>> start_job(guest::StartJob job) = 0;
  // A file job without data, to its end.
  virtual asio::awaitable<Result<guest::JobOver>> job(guest::StartJob job) = 0;
  // The entries of a List or Search, at most `most` and 16 MiB of paths; more is
  // Code::Exhausted.
  asio::awaitable<Result<std::vector<guest::Entry>>> entries(guest::StartJob job, std::size_t most);

  // Waits for the session's shell in the order of arrival and keeps it from starting runs until the
  // permit is gone: how a commit sees no run half way.
  virtual asio::awaitable<Result<Semaphore::Permit>> take_shell(WhenBusy when_busy) = 0;

 protected:
  LiveSession() = default;
  SpoolShelf& spools() { return *spools_; }

 private:
  std::shared_ptr<SpoolShelf> spools_ = std::make_shared<SpoolShelf>();
};

}  // namespace glovebox::session
