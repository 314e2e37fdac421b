#include "guest/agent/agent_core.h"
#include "guest/shell/process_tree.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <utility>

namespace glovebox::guest {
namespace {

using std::chrono::milliseconds;

// What a process that was killed may take to be gone, before the shell above it is killed as well.
constexpr milliseconds kAfterKill{100};
// After that the run is reported ended although something of it could not be killed.
constexpr milliseconds kGiveUp{2000};
constexpr int kLooksBetweenInterrupts = 5;
// A longer grace is cut to this, so that the end of a run has a bound.
constexpr std::uint32_t kMaxGraceMs = 60'000;

void send_all(const std::vector<pid_t>& pids, int signal) {
  // One that has ended meanwhile is not there to be signalled; a zombie keeps its number.
  for (const pid_t pid : pids) ::kill(pid, signal);
}

}  // namespace

std::vector<pid_t> Agent::processes_of(Run& run) const {
  Run::Killing* const killing = run.killing ? &*run.killing : nullptr;
  const auto all = list_processes();
  // Without /proc the group is what can be reached.
  if (!all) return run.pid > 0 ? std::vector<pid_t>{-run.pid} : std::vector<pid_t>{};
  std::map<pid_t, std::uint64_t> found;
  const auto add_tree = [&](pid_t root) {
    for (const ProcessInfo& process : descendants_of(root, *all)) {
      if (process.state != 'Z') found[process.pid] = process.start_ticks;
    }
  };
  for (const ProcessInfo& process : shell_->run_processes(*all)) {
    if (run.mode == RunMode::Shell) found[process.pid] = process.start_ticks;
  }
  if (run.pid > 0) add_tree(run.pid);
  for (const ProcessInfo& process : *all) {
    const bool in_session =
        process.session == run.session && process.start_ticks >= run.start_ticks;
    const bool is_known = killing != nullptr && killing->known.contains(process.pid) &&
                          killing->known.at(process.pid) == process.start_ticks;
    if (process.state == 'Z' || (!in_session && !is_known)) continue;
    found[process.pid] = process.start_ticks;
    if (is_known) add_tree(process.pid);
  }
  std::vector<pid_t> pids;
  pids.reserve(found.size());
  for (const auto& [pid, start] : found) pids.push_back(pid);
  // The end of a pipeline before its beginning: it would otherwise end well, for want of input, and
  // the shell would take the interrupt for handled.
  std::ranges::reverse(pids);
  if (killing != nullptr) killing->known = std::move(found);
  return pids;
}

void Agent::signal_run(Run& run, int signal) {
  const std::vector<pid_t> pids = processes_of(run);
  // The shell first: it goes on with the next command if a program dies of an interrupt that it has
  // not got itself.
  if (run.mode == RunMode::Shell && signal == SIGINT) shell_->interrupt();
  send_all(pids, signal);
}

Result<void> Agent::handle(Id id, const SignalRun& signal, std::vector<UniqueFd>& /*fds*/) {
  if (signal.signal < 1 || signal.signal > 64) {
    return fail(Code::Invalid, "there is no signal {}", signal.signal);
  }
  const auto run = runs_.find(id);
  if (run == runs_.end() || run->second.ended) return {};  // it has ended meanwhile
  signal_run(run->second, static_cast<int>(signal.signal));
  return {};
}

Result<void> Agent::handle(Id id, const KillRun& kill, std::vector<UniqueFd>& /*fds*/) {
  const auto run = runs_.find(id);
  if (run == runs_.end() || run->second.killing) return {};
  const milliseconds grace(std::min(kill.grace_ms, kMaxGraceMs));
  const Clock::time_point now = Clock::now();
  run->second.killing = Run::Killing{now + grace / 3, now + grace};
  signal_run(run->second, SIGINT);
  go_on_killing(id, run->second);
  return {};
}

// One look at a run that is to end: signals what is left, and finishes when nothing is.
void Agent::go_on_killing(Id id, Run& run) {
  using Sent = Run::Killing::Sent;
  if (!run.killing) return;
  Run::Killing& killing = *run.killing;
  const Clock::time_point now = Clock::now();
  const auto known = killing.known;
  const std::vector<pid_t> left = processes_of(run);
  const bool gave_up = now >= killing.kill_at + kGiveUp;
  if (run.ended && (left.empty() || gave_up)) {
    run.killing.reset();
    try_finish(id);
    return;
  }
  const bool shell_at_work = run.mode == RunMode::Shell && !run.ended;
  if (now >= killing.kill_at) {
    // Again and again: what forks while it is being killed is met the next time.
    send_all(left, SIGKILL);
    if (shell_at_work && now >= killing.kill_at + kAfterKill) shell_->kill();
    return;
  }
  // A shell that goes on with its next command has missed the interrupt, or took it for handled by
  // the program it waited for.
  if (shell_at_work && left.empty() && ++killing.idle_looks % kLooksBetweenInterrupts == 0) {
    shell_->interrupt();
  }
  // Once the shell is back, what is left behind it has no one to wait for.
  if (killing.sent == Sent::Interrupt && (now >= killing.term_at || run.ended)) {
    if (shell_at_work) shell_->interrupt();
    send_all(left, SIGTERM);
    killing.sent = Sent::Terminate;
    return;
  }
  // What has started since the last look has not heard of it.
  for (const pid_t pid : left) {
    if (!known.contains(pid)) ::kill(pid, killing.sent == Sent::Interrupt ? SIGINT : SIGTERM);
  }
}

void Agent::find_stragglers() {
  const auto all = list_processes();
  if (!all) return;
  const auto shell = std::ranges::find(*all, shell_->pid(), &ProcessInfo::pid);
  if (shell == all->end()) return;
  for (const ProcessInfo& process : shell_->run_processes(*all)) {
    // One with a session of its own is a daemon, and no part of what was interrupted.
    if (process.session == shell->session) stragglers_[process.pid] = process.start_ticks;
  }
  stragglers_until_ = Clock::now() + kGiveUp;
  interrupt_stragglers();
}

// Again and again: between fork and exec a program still has the shell's handler, which forgets it.
void Agent::interrupt_stragglers() {
  if (stragglers_.empty()) return;
  const auto all = list_processes();
  if (!all || Clock::now() >= stragglers_until_) return stragglers_.clear();
  std::erase_if(stragglers_, [&](const auto& straggler) {
    return std::ranges::none_of(*all, [&](const ProcessInfo& process) {
      return process.pid == straggler.first && process.start_ticks == straggler.second &&
             process.state != 'Z';
    });
  });
  for (const auto& [pid, start] : stragglers_) ::kill(pid, SIGINT);
}

}  // namespace glovebox::guest
