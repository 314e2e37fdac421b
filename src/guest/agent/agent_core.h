// The agent's books: its runs, its jobs, its shell, and what happens when something happens.
// agent.cpp has the loop and the dispatch, agent_runs.cpp starts and ends runs, agent_kill.cpp
// signals them, agent_flows.cpp moves bytes, agent_jobs.cpp has the file jobs.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "guest/agent/agent.h"
#include "guest/agent/event_loop.h"
#include "guest/agent/flows.h"
#include "guest/protocol/protocol.h"
#include "guest/protocol/wire.h"
#include "guest/shell/private_dir.h"
#include "guest/shell/shell.h"
#include "guest/shell/spawn.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace glovebox::guest {

using Clock = std::chrono::steady_clock;

// One run, from its start until RunEnded is sent.
struct Run {
  RunMode mode = RunMode::Shell;
  RunIo io = RunIo::Pipes;
  pid_t pid = -1;      // Fresh, Exec: the main process, until it is reaped
  pid_t session = -1;  // Fresh, Exec: the session it leads
  std::uint64_t start_ticks = 0;
  std::vector<UniqueFd> held;        // ends of pipes that stay open while the run lasts
  std::vector<UniqueFd> held_input;  // both ends of the input, until the shell has opened it
  UniqueFd terminal;                 // Terminal: for resizing
  std::string file;                  // in the private directory, removed at the end
  // The run's own part is over; what is left is to kill its tree or to pass its output on.
  std::optional<RunEnded> ended;

  struct Killing {
    Clock::time_point term_at;
    Clock::time_point kill_at;
    enum class Sent { Interrupt, Terminate } sent = Sent::Interrupt;
    // What was seen of the run: a process whose parent was killed first is still met.
    std::map<pid_t, std::uint64_t> known = {};  // pid, start
    int idle_looks = 0;
  };
  std::optional<Killing> killing;
};

struct Job {
  pid_t pid = -1;
  UniqueFd status;    // the child's answer
  std::string heard;  // of it so far
  std::optional<Clock::time_point> kill_at;
  std::optional<JobEnded> ended;  // said once the output has passed
};

class Agent {
 public:
  static Result<Agent> make(AgentOptions options);
  Result<void> serve();

  Agent(Agent&&) noexcept = default;

 private:
  using StreamId = std::pair<Id, Stream>;

  explicit Agent(Wire wire, EventLoop loop, UniqueFd children, PrivateDir dir)
      : wire_(std::move(wire)),
        loop_(std::move(loop)),
        children_(std::move(children)),
        dir_(std::move(dir)) {}

  // The loop and the dispatch.
  Result<void> watch_all();
  void on_socket();
  void on_children();
  void on_tick();
  Result<void> take_frame(ReceivedFrame received);
  Result<void> handle(Id id, const Hello& hello, std::vector<UniqueFd>& fds);
  Result<void> handle(Id id, CodePart& part, std::vector<UniqueFd>& fds);
  Result<void> handle(Id id, StartRun& run, std::vector<UniqueFd>& fds);
  Result<void> handle(Id id, const Input& input, std::vector<UniqueFd>& fds);
  Result<void> handle(Id id, const InputEnd& end, std::vector<UniqueFd>& fds);
  Result<void> handle(Id id, const Resize& size, std::vector<UniqueFd>& fds);
  Result<void> handle(Id id, const SignalRun& signal, std::vector<UniqueFd>& fds);
  Result<void> handle(Id id, const KillRun& kill, std::vector<UniqueFd>& fds);
  Result<void> handle(Id id, const StartJob& job, std::vector<UniqueFd>& fds);
  Result<void> handle(Id id, const CancelJob& cancel, std::vector<UniqueFd>& fds);
  Result<void> handle(Id id, const Credit& credit, std::vector<UniqueFd>& fds);
  Result<void> handle(Id id, const Shutdown& shutdown, std::vector<UniqueFd>& fds);
  void say(Id id, Reply reply, std::vector<UniqueFd> fds = {});
  void refuse(Id id, const Error& error);
  void fail_session(Error error);
  bool is_packets() const { return wire_.transport() == Transport::Packets; }

  // Runs.
  Result<void> start_run(Id id, const StartRun& run, std::string_view code);
  Result<void> start_in_shell(Id id, const StartRun& run, std::string_view code);
  bool tell_whole(Id id, std::uint32_t status, ShellPipes& pipes);
  Result<void> hand_over_shell(Id id, ShellPipes pipes);
  Result<void> start_process(Id id, const StartRun& run, std::string_view code);
  Result<void> fill_fresh(Id id, const StartRun& run, std::string_view code, Run& record,
                          std::vector<std::string>& files, std::vector<std::string>& argv);
  Result<void> start_with_pipes(Id id, const StartRun& run, SpawnRequest& request, Run record);
  Result<void> start_with_terminal(Id id, const StartRun& run, SpawnRequest& request, Run record);
  Result<void> hand_over(Id id, std::vector<std::pair<Stream, UniqueFd>> ends);
  Result<void> start_shell();
  void on_marks();
  void on_shell_death(int wait_status);
  void run_over(Id id, RunEnded ended);
  void try_finish(Id id);
  std::string absolute(std::string_view path) const;

  // Signals.
  // What a run has started and has not ended, without the persistent shell.
  std::vector<pid_t> processes_of(Run& run) const;
  void signal_run(Run& run, int signal);
  void go_on_killing(Id id, Run& run);
  // Of a run that the shell gave up for an interrupt: programs that it was just starting have not
  // got the signal, and the shell, in its next run, would wait for them first.
  void find_stragglers();
  void interrupt_stragglers();

  // Bytes.
  Result<void> add_out_flow(Id id, Stream stream, UniqueFd from);
  Result<void> add_in_flow(Id id, UniqueFd to);
  Result<void> add_relay(Id id, Stream stream, UniqueFd from, UniqueFd to);
  FlowState move_out(StreamId stream);
  FlowState move_relay(StreamId stream);
  void move_in(Id id);
  void move_all_out();
  void drop_in_flow(Id id);
  void drop_relay(StreamId stream);
  void drop_flows(Id id);
  // Nothing that was written so far still waits here.
  bool has_passed(Id id);

  // Jobs.
  Result<void> start_job(Id id, const StartJob& job, std::vector<UniqueFd> fds);
  Result<void> fork_job(Id id, const StartJob& job, UniqueFd data);
  void on_job_status(Id id);
  void finish_job(Id id);

  Wire wire_;
  EventLoop loop_;
  UniqueFd children_;  // signalfd of SIGCHLD
  PrivateDir dir_;
  UniqueFd workspace_;
  std::string workspace_path_;
  std::vector<std::string> env_;
  std::unique_ptr<PersistentShell> shell_;  // there from Hello on
  bool greeted_ = false;
  bool shell_was_lost_ = false;  // between two runs
  bool over_ = false;
  std::optional<Error> failure_;

  Id newest_id_ = kSessionId;                  // ids only grow
  Id shell_run_ = kSessionId;                  // the run that has the shell
  std::map<pid_t, std::uint64_t> stragglers_;  // with when each was started
  Clock::time_point stragglers_until_;
  std::map<Id, Run> runs_;
  std::map<Id, Job> jobs_;
  std::pair<Id, std::string> code_;  // parts of the run that comes next
  std::map<StreamId, OutFlow> out_flows_;
  std::map<Id, InFlow> in_flows_;
  std::map<StreamId, Relay> relays_;
};

}  // namespace glovebox::guest
