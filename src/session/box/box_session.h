// The LiveSession of a real box.
//
// One object, the loop's thread, callbacks and coroutines. Callbacks bring in what the agent says
// and what the kernel tells of pipes and clocks; they change a RunState or JobState and wake the
// coroutine that waits for it.
//
//   Building   the box's own steps run; its last word comes as a launch message
//   Greeting   the agent was greeted and has not answered
//   Ready      in use
//   Ending     the box is being killed; the launcher will tell what ended it
//   Over       every waiting coroutine has its error
#pragma once

#include "async/event.h"
#include "async/nonblocking_fd.h"
#include "async/semaphore.h"
#include "launch/launcher_client.h"
#include "session/box/box_networks.h"
#include "session/box/live_session.h"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <map>

namespace glovebox::session {

using SharedFd = std::shared_ptr<const UniqueFd>;

struct BoxSettings {
  guest::Hello hello;
  plan::Watch watch;  // wall and output_bytes are kept here
  plan::CgroupPlan cgroup;
  std::string spool_directory;
  LiveSession::OnEnd on_end;
  LiveSession::OnRun on_run;
  std::unique_ptr<BoxNetwork> network;  // when the plan has one
  // NAME=value, instead of the plan's: a shell's, that this one goes on from.
  std::optional<std::vector<std::string>> env{};
  std::uint64_t runs_before = 0;  // of former boxes of the session
};

// One run of a session.
struct RunState {
  RunState(asio::io_context& loop, std::uint64_t number_)
      : output(loop), error(loop), input(loop), wakeup(loop), input_wakeup(loop), timer(loop) {
    record.number = number_;
  }

  guest::Id id = 0;
  std::array<std::string, 2> printed;  // output and error output of one that came whole
  ReadyFd output;
  ReadyFd error;
  ReadyFd input;
  Wakeup wakeup;
  Wakeup input_wakeup;
  asio::steady_timer timer;  // the deadline, then the watch over the kill
  Semaphore::Permit turn;
  bool has_begun = false;
  bool is_killed = false;
  bool is_discarded = false;  // there is no reader: what it prints is thrown away until it is over
  bool is_closed = false;     // its end is recorded
  std::optional<RunResult> result;
  std::optional<Error> problem;
  RunRecord record;

  void wake() {
    wakeup.notify();
    input_wakeup.notify();
  }
  bool is_over() const { return result.has_value() || problem.has_value(); }
};

// One file job of a session.
struct JobState {
  explicit JobState(asio::io_context& loop) : data(loop), wakeup(loop) {}

  guest::Id id = 0;
  ReadyFd data;
  Wakeup wakeup;
  bool is_input = false;     // `data` is for the agent to read
  bool is_given_up = false;  // no caller waits for its end
  std::optional<guest::JobOver> over;
  std::optional<Error> problem;

  bool is_over() const { return over.has_value() || problem.has_value(); }
};

class BoxSession final : public LiveSession {
 public:
  BoxSession(asio::io_context& loop, launch::RemoteBox box, BoxSettings settings);
  ~BoxSession() override;

  // Waits until the agent is there. An error says which step of the plan failed.
  asio::awaitable<Result<void>> begin(const plan::LaunchPlan& plan,
                                      std::chrono::milliseconds timeout);
  // The launcher says that nothing of the box is left.
  void box_ended(const launch::RemoteEnd& end);
  // The launcher is gone, and the box with it.
  void launcher_gone();
  // Ends it for a reason of ours: at once for those who wait, and the box is killed. Nothing
  // happens to one that is over.
  void close(EndCause cause, std::string sentence);
  // Ends it because of a limit that is enforced elsewhere.
  void end_by(launch::LimitKind limit) { lose(EndCause::Limit, limit, {}); }
  // From now on the box has at most what `to` grants of the network, and the smaller budgets: of
  // those that can be lowered while it runs. Never widens anything.
  NarrowedBox narrow(const authority::AuthoritySet& to, std::optional<std::uint64_t> cpus_milli,
                     egress::Existing existing);
  // The same, but what the launcher says of the box's end is waited for: it may know better.
  void end_for(EndCause cause, std::optional<launch::LimitKind> limit, std::string sentence) {
    lose(cause, limit, std::move(sentence));
  }
  std::uint64_t box_id() const { return box_id_; }
  const std::string& cgroup() const { return cgroup_; }
  // What is written into its layers that have a budget, in the order of plan::handed_layers().
  const std::vector<SharedFd>& layers() const { return layers_; }
  void forget_layers() { layers_.clear(); }
  const launch::RemoteEnd& usage() const { return remote_end_; }
  std::uint64_t output_bytes() const { return output_bytes_; }
  std::uint64_t run_count() const { return run_count_; }
  // Of a box that was made ahead: its runs count on from those of its session.
  void count_runs_from(std::uint64_t before) { run_count_ += before; }
  std::chrono::steady_clock::time_point last_use() const { return last_use_; }

  guest::ShellKind shell() const override { return shell_; }
  bool is_alive() const override { return phase_ == Phase::Ready; }
  const std::optional<SessionEnd>& end() const override { return end_; }
  std::size_t under_way() const override { return in_use_ + queue_->waiting(); }
  asio::awaitable<Result<std::shared_ptr<LiveRun>>> start(RunRequest request) override;
  // A run of the service's own, to its end: it is neither counted nor reported.
  asio::awaitable<Result<RunResult>> run_inner(RunRequest request, OutputReader& reader);
  asio::awaitable<Result<BackgroundStatus>> start_background(RunRequest request) override;
  Result<BackgroundStatus> background(std::string_view run_id) const override;
  std::vector<BackgroundStatus> background_runs() const override;
  Result<BackgroundLog> background_log(std::string_view run_id, std::uint64_t cursor,
                                       std::size_t most) const override;
  Result<void> kill_background(std::string_view run_id) override;
  Result<void> signal_shell_run(int signal) override;
  asio::awaitable<Result<std::unique_ptr<FileJob>>> start_job(guest::StartJob job) override;
  asio::awaitable<Result<guest::JobOver>> job(guest::StartJob job) override;
  asio::awaitable<Result<Semaphore::Permit>> take_shell(WhenBusy when_busy) override;

 private:
  friend class BoxRun;
  friend class BoxJob;
  enum class Phase : std::uint8_t { Building, Greeting, Ready, Ending, Over };

  struct Background {
    BackgroundStatus status;
    std::shared_ptr<RunState> run;
    std::shared_ptr<Spool> spool;
  };

  // The line to the agent (box_session.cpp).
  void watch_line();
  void watch_line_for_room();
  void on_line();
  Result<void> take_network(std::vector<UniqueFd> fds);
  Result<void> take_layers(std::vector<UniqueFd> fds);
  // Whether a run that failed had no room left to write.
  bool is_disk_full() const;
  Result<void> take_launch_message();
  void take(guest::AgentEvent& event);
  void take_event(guest::AgentReady& ready);
  void take_event(guest::RunBegun& begun);
  void take_event(guest::RunOver& over);
  void take_event(guest::RunWhole& whole);
  void end_run(guest::Id id, const guest::RunEnded& end);
  void take_event(guest::RequestRefused& refused);
  void take_event(guest::JobOver& over);
  void take_event(guest::AgentGone& gone);
  template <class Event>
  void take_event(Event& event);
  void kill_box();
  void lose(EndCause cause, std::optional<launch::LimitKind> limit, std::string sentence);
  void finish();
  void watch_wall();
  Error over_error() const;

  // Narrowing (box_narrow.cpp).
  void narrow_network(const authority::AuthoritySet& to, egress::Existing existing,
                      NarrowedBox& narrowed);
  void narrow_cgroup(const authority::AuthoritySet& to, std::optional<std::uint64_t> cpus_milli,
                     NarrowedBox& narrowed);
  void narrow_watch(const authority::AuthoritySet& to, NarrowedBox& narrowed);

  // Runs (box_run.cpp).
  asio::awaitable<Result<std::shared_ptr<RunState>>> begin_run(RunRequest request,
                                                               RunRecord::Kind kind);
  Result<void> ask_for_run(const std::shared_ptr<RunState>& run, guest::StartRun start,
                           std::optional<std::chrono::milliseconds> timeout);
  asio::awaitable<Result<void>> await_begun(std::shared_ptr<RunState> run);
  void set_deadline(const std::shared_ptr<RunState>& run, std::chrono::milliseconds timeout);
  void kill_run(const std::shared_ptr<RunState>& run);
  void watch_kill(const std::shared_ptr<RunState>& run, int patience);
  void abandon(const std::shared_ptr<RunState>& run);
  void discard(const std::shared_ptr<RunState>& run);
  void close_run(const std::shared_ptr<RunState>& run);
  // How many of them may be handed on. The first that is too many ends the session.
  std::size_t count_output(const std::shared_ptr<RunState>& run, std::size_t bytes);
  asio::awaitable<void> follow_background(std::shared_ptr<LiveRun> run, std::string run_id);
  const Background* find_background(std::string_view run_id) const;

  // Jobs (box_job.cpp).
  Result<std::shared_ptr<JobState>> ask_for_job(const guest::StartJob& job);

  asio::io_context& loop_;
  BoxSettings settings_;
  std::uint64_t box_id_;
  UniqueFd init_;
  std::string cgroup_;
  std::vector<SharedFd> layers_;
  const plan::LaunchPlan* plan_ = nullptr;  // while it is Building
  bool has_network_ = false;
  std::unique_ptr<guest::AgentLink> link_;  // until it is over
  asio::posix::stream_descriptor line_;     // the link's socket, watched and not owned
  bool waits_for_room_ = false;
  Phase phase_ = Phase::Building;
  Wakeup started_;
  asio::steady_timer timer_;  // of the start, then of the end
  asio::steady_timer wall_;
  std::chrono::steady_clock::time_point ready_at_;  // from when on its time counts
  std::map<authority::BudgetKind, std::optional<std::uint64_t>> network_budgets_;
  std::optional<Error> start_problem_;
  guest::ShellKind shell_ = guest::ShellKind::None;
  std::shared_ptr<Semaphore> queue_;
  guest::Id shell_run_ = guest::kSessionId;
  std::map<guest::Id, std::shared_ptr<RunState>> runs_;
  std::map<guest::Id, std::shared_ptr<JobState>> jobs_;
  std::map<std::string, Background, std::less<>> background_;
  std::size_t in_use_ = 0;  // runs whose end is not recorded yet, and jobs that a caller holds
  std::uint64_t run_count_ = 0;
  std::uint64_t output_bytes_ = 0;
  std::chrono::steady_clock::time_point last_use_ = std::chrono::steady_clock::now();
  SessionEnd ending_;  // what will be said of its end
  std::optional<SessionEnd> end_;
  launch::RemoteEnd remote_end_;
};

}  // namespace glovebox::session
