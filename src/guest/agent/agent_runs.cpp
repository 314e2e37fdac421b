#include "base/file.h"
#include "base/pipe.h"
#include "guest/agent/agent_core.h"
#include "guest/shell/shell_text.h"
#include "guest/shell/spawn.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace glovebox::guest {
namespace {

constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";
// The kernel takes no argument longer than 128 KiB (execve(2)).
constexpr std::size_t kMaxArgument = std::size_t{100} << 10;

// How long the start of a run in the shell may wait for its end, to be told together.
constexpr std::chrono::microseconds kMoment{300};
// What a shell tells of a run that an interrupt threw it out of.
constexpr std::uint32_t kInterruptedStatus = 128 + SIGINT;

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

// What no shell and no execve can be given is refused here, before anything was made.
Result<void> check_run(const StartRun& run, std::string_view code) {
  const bool in_shell = run.mode != RunMode::Exec;
  if (in_shell == !run.argv.empty()) return fail(Code::Invalid, "a run needs code or arguments");
  if (!in_shell && !code.empty()) return fail(Code::Invalid, "a run has code and arguments");
  if (run.mode == RunMode::Shell && run.io == RunIo::Terminal) {
    return fail(Code::Unsupported, "the persistent shell has no terminal; use a fresh one");
  }
  if (has_nul(code) || has_nul(run.cwd) || std::ranges::any_of(run.argv, has_nul) ||
      std::ranges::any_of(run.env, has_nul)) {
    return fail(Code::Invalid, "a run with a zero byte in its code, arguments or environment");
  }
  for (const std::string& entry : run.env) {
    const std::size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos || (in_shell && !is_assignment(entry))) {
      return fail(Code::Invalid, "'{}' cannot be set for a run", entry.substr(0, equals));
    }
  }
  return {};
}

// How much is in the pipe; nothing when that does not go into a frame.
std::optional<std::size_t> unread_in(const NamedPipe& pipe) {
  int unread = 0;
  if (::ioctl(pipe.read.get(), FIONREAD, &unread) != 0) return std::nullopt;
  const auto size = static_cast<std::size_t>(unread);
  return size <= kMaxChunk ? std::optional(size) : std::nullopt;
}

std::string take_from(const NamedPipe& pipe, std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t taken = 0;
  while (taken < count) {
    const ssize_t size = ::read(pipe.read.get(), bytes.data() + taken, count - taken);
    if (size <= 0) break;
    taken += static_cast<std::size_t>(size);
  }
  bytes.resize(taken);
  return bytes;
}

struct TerminalPair {
  UniqueFd inside;   // the program's
  UniqueFd outside;  // ours
};

Result<TerminalPair> open_terminal(const StartRun& run) {
  TerminalPair pair;
  TRY(pair.outside, open_file("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK));
  int unlock = 0;
  if (::ioctl(pair.outside.get(), TIOCSPTLCK, &unlock) != 0) {
    return fail_os(errno, "unlock a terminal");
  }
  pair.inside = UniqueFd(::ioctl(pair.outside.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!pair.inside) return fail_os(errno, "open a terminal");
  const winsize size{run.rows, run.columns, 0, 0};
  if (::ioctl(pair.outside.get(), TIOCSWINSZ, &size) != 0) {
    return fail_os(errno, "set a terminal's size");
  }
  return pair;
}

}  // namespace

std::string Agent::absolute(std::string_view path) const {
  if (path.starts_with('/')) return std::string(path);
  return fmt::format("{}/{}", workspace_path_, path);
}

Result<void> Agent::start_run(Id id, const StartRun& run, std::string_view code) {
  TRY_VOID(check_run(run, code));
  if (runs_.size() >= kMaxRuns) return fail(Code::Exhausted, "{} runs at a time", kMaxRuns);
  return run.mode == RunMode::Shell ? start_in_shell(id, run, code) : start_process(id, run, code);
}

Result<void> Agent::start_shell() {
  TRY_VOID(shell_->start());
  return loop_.watch(shell_->marks(), EPOLLIN, [this](std::uint32_t /*events*/) { on_marks(); });
}

Result<void> Agent::start_in_shell(Id id, const StartRun& run, std::string_view code) {
  if (shell_run_ != kSessionId) {
    return fail(Code::Exhausted, "the shell is busy with run {}", shell_run_);
  }
  if (!shell_->is_running()) TRY_VOID(start_shell());
  TRY(ShellPipes pipes, shell_->take_pipes(run.io, run.input));
  const std::string cwd = run.cwd.empty() ? std::string() : absolute(run.cwd);
  TRY_VOID(shell_->begin(run, code, cwd, pipes));
  shell_run_ = id;
  runs_[id].io = run.io;
  std::optional<std::uint32_t> status;
  if (is_packets() && run.input == RunInput::Empty) status = shell_->await_end(kMoment);
  if (status && tell_whole(id, *status, pipes)) return {};
  TRY_VOID(hand_over_shell(id, std::move(pipes)));
  if (status) run_over(id, {EndKind::Exited, *status, ShellState::Kept});
  return {};
}

// A run that is over in a moment is told in one frame, with what it printed: that wakes the
// supervisor once instead of three times, and the pipes stay here for another run. Not when there
// is too much, or something is left that could print more.
bool Agent::tell_whole(Id id, std::uint32_t status, ShellPipes& pipes) {
  if (!shell_->note_older()) return false;
  const auto output = unread_in(pipes.output);
  const auto error = pipes.error ? unread_in(*pipes.error) : std::optional<std::size_t>(0);
  if (!output || !error || *output + *error > kMaxChunk) return false;
  RunDone done;
  done.end = {EndKind::Exited, status, shell_was_lost_ ? ShellState::Fresh : ShellState::Kept};
  done.output = take_from(pipes.output, *output);
  if (pipes.error) done.error = take_from(*pipes.error, *error);
  say(id, std::move(done));
  runs_.erase(id);
  shell_run_ = kSessionId;
  shell_was_lost_ = false;
  shell_->keep_pipes(std::move(pipes));
  shell_->prepare();
  return true;
}

Result<void> Agent::hand_over_shell(Id id, ShellPipes pipes) {
  Run& record = runs_[id];
  shell_->let_go_of(pipes);
  // The pipes stay alive until the run is over: opening one that has no reader any more would keep
  // the shell waiting for ever, and one that no process has open for writing looks ended. The
  // shell's object has the readers.
  for (NamedPipe* pipe : {&pipes.output, pipes.error ? &*pipes.error : nullptr}) {
    if (pipe == nullptr) continue;
    PrivateDir::open_writer(*pipe);
    record.held.push_back(std::move(pipe->write));
  }
  std::vector<std::pair<Stream, UniqueFd>> ends;
  ends.emplace_back(Stream::Output, std::move(pipes.output.read));
  if (pipes.error) ends.emplace_back(Stream::Error, std::move(pipes.error->read));
  if (pipes.input) {
    if (auto copy = duplicate_fd(pipes.input->write)) record.held_input.push_back(*std::move(copy));
    record.held_input.push_back(std::move(pipes.input->read));
    ends.emplace_back(Stream::Input, std::move(pipes.input->write));
  }
  return hand_over(id, std::move(ends));
}

// Tells of the start, and gives the outer ends of the run's pipes away: to the supervisor, or to
// flows of our own.
Result<void> Agent::hand_over(Id id, std::vector<std::pair<Stream, UniqueFd>> ends) {
  if (is_packets()) {
    std::vector<UniqueFd> fds;
    fds.reserve(ends.size());
    for (auto& [stream, fd] : ends) fds.push_back(std::move(fd));
    say(id, RunStarted{}, std::move(fds));
    return {};
  }
  say(id, RunStarted{});
  for (auto& [stream, fd] : ends) {
    auto added = stream == Stream::Input ? add_in_flow(id, std::move(fd))
                                         : add_out_flow(id, stream, std::move(fd));
    // The run is under way and cannot be refused any more.
    if (!added) fail_session(std::move(added).error());
  }
  return {};
}

Result<void> Agent::start_process(Id id, const StartRun& run, std::string_view code) {
  SpawnRequest request;
  Run record;
  record.mode = run.mode;
  record.io = run.io;
  record.start_ticks = ticks_now();
  // As the first process of a container has it: what a run leaves behind stays below it, where it
  // is found when the run is killed.
  request.orphans = SpawnRequest::Orphans::Adopted;
  request.cwd = run.cwd.empty() ? workspace_path_ : absolute(run.cwd);
  if (run.mode == RunMode::Fresh) {
    if (run.cwd.empty() && !shell_->directory().empty()) request.cwd = shell_->directory();
    request.env = env_;
    TRY_VOID(fill_fresh(id, run, code, record, request.files, request.argv));
  } else {
    request.env = merge_env(env_, run.env);
    const std::string_view path = value_in(request.env, "PATH");
    request.files = candidates_for(run.argv.front(), path.empty() ? kDefaultPath : path);
    request.argv = run.argv;
  }
  auto started = run.io == RunIo::Terminal
                     ? start_with_terminal(id, run, request, std::move(record))
                     : start_with_pipes(id, run, request, std::move(record));
  return started;
}

Result<void> Agent::fill_fresh(Id id, const StartRun& run, std::string_view code, Run& record,
                               std::vector<std::string>& files, std::vector<std::string>& argv) {
  if (!shell_->is_running() && shell_->kind() == ShellKind::None) {
    return fail(Code::NotFound, "the box has no shell");
  }
  std::string text = fresh_shell_text(shell_->kind(), shell_->snapshot(), run.env, code);
  if (text.size() > kMaxArgument) {
    record.file = fmt::format("f{}", id);
    TRY_VOID(dir_.write_file(record.file, text));
    text = file_text(dir_.path_of(record.file));
  }
  files = {shell_->file()};
  argv = fresh_shell_argv(shell_->kind(), shell_->file(), std::move(text));
  return {};
}

Result<void> Agent::start_with_pipes(Id id, const StartRun& run, SpawnRequest& request,
                                     Run record) {
  TRY(Pipe output, open_pipe());
  TRY(Pipe error, open_pipe());
  TRY(UniqueFd input, open_file("/dev/null", O_RDONLY));
  UniqueFd feed;
  if (run.input == RunInput::Streamed) {
    TRY(Pipe pipe, open_pipe());
    input = std::move(pipe.read);
    feed = std::move(pipe.write);
    TRY_VOID(set_nonblocking(feed));
  }
  TRY_VOID(set_nonblocking(output.read));
  TRY_VOID(set_nonblocking(error.read));
  const bool apart = run.io == RunIo::Pipes;
  request.stdio = {input.get(), output.write.get(), (apart ? error : output).write.get()};
  TRY(record.pid, spawn(request));
  record.session = record.pid;
  runs_.insert_or_assign(id, std::move(record));
  std::vector<std::pair<Stream, UniqueFd>> ends;
  ends.emplace_back(Stream::Output, std::move(output.read));
  if (apart) ends.emplace_back(Stream::Error, std::move(error.read));
  if (feed) ends.emplace_back(Stream::Input, std::move(feed));
  return hand_over(id, std::move(ends));
}

// The supervisor never gets the terminal itself: the box could change how the shared descriptor
// behaves. It gets two pipes, and the agent carries the bytes.
Result<void> Agent::start_with_terminal(Id id, const StartRun& run, SpawnRequest& request,
                                        Run record) {
  TRY(TerminalPair terminal, open_terminal(run));
  TRY(UniqueFd keys, duplicate_fd(terminal.outside));
  TRY(record.terminal, duplicate_fd(terminal.outside));
  Pipe screen_pipe;
  Pipe keys_pipe;
  if (is_packets()) {
    TRY(screen_pipe, open_pipe());
    TRY(keys_pipe, open_pipe());
    for (const UniqueFd* fd :
         {&screen_pipe.read, &screen_pipe.write, &keys_pipe.read, &keys_pipe.write}) {
      TRY_VOID(set_nonblocking(*fd));
    }
  }
  const int inside = terminal.inside.get();
  request.stdio = {inside, inside, inside};
  request.terminal = SpawnRequest::Terminal::Controlling;
  TRY(record.pid, spawn(request));
  record.session = record.pid;
  runs_.insert_or_assign(id, std::move(record));
  std::vector<std::pair<Stream, UniqueFd>> ends;
  if (!is_packets()) {
    ends.emplace_back(Stream::Output, std::move(terminal.outside));
    ends.emplace_back(Stream::Input, std::move(keys));
    return hand_over(id, std::move(ends));
  }
  ends.emplace_back(Stream::Output, std::move(screen_pipe.read));
  ends.emplace_back(Stream::Input, std::move(keys_pipe.write));
  auto added =
      add_relay(id, Stream::Output, std::move(terminal.outside), std::move(screen_pipe.write));
  if (added) added = add_relay(id, Stream::Input, std::move(keys_pipe.read), std::move(keys));
  if (!added) fail_session(std::move(added).error());
  return hand_over(id, std::move(ends));
}

Result<void> Agent::handle(Id id, const Resize& size, std::vector<UniqueFd>& /*fds*/) {
  const auto run = runs_.find(id);
  if (run == runs_.end() || !run->second.terminal) return {};  // it has ended meanwhile
  const winsize window{size.rows, size.columns, 0, 0};
  // A terminal that no process has open any more keeps its size; nothing depends on it.
  (void)::ioctl(run->second.terminal.get(), TIOCSWINSZ, &window);
  return {};
}

void Agent::on_marks() {
  const auto status = shell_->take_end();
  if (const auto run = runs_.find(shell_run_); run != runs_.end() && shell_->input_opened()) {
    run->second.held_input.clear();
  }
  if (!status || shell_run_ == kSessionId) return;
  if (*status == kInterruptedStatus && shell_->was_interrupted()) find_stragglers();
  run_over(shell_run_, {EndKind::Exited, *status, ShellState::Kept});
}

// The run's own part is over. Shells are ready for the next run from here on.
void Agent::run_over(Id id, RunEnded ended) {
  const auto run = runs_.find(id);
  if (run == runs_.end()) return;
  if (id == shell_run_) {
    if (shell_was_lost_) ended.shell = ShellState::Fresh;
    shell_was_lost_ = false;
  }
  run->second.ended = ended;
  run->second.pid = -1;
  run->second.held.clear();
  run->second.held_input.clear();
  if (id == shell_run_) shell_->hush();
  if (run->second.killing) {
    go_on_killing(id, run->second);
  } else {
    try_finish(id);
  }
}

void Agent::try_finish(Id id) {
  const auto run = runs_.find(id);
  if (run == runs_.end() || run->second.killing || !run->second.ended || !has_passed(id)) return;
  say(id, run->second.ended.value_or(RunEnded{}));
  if (!run->second.file.empty()) dir_.remove(run->second.file);
  const bool had_terminal = run->second.io == RunIo::Terminal;
  runs_.erase(run);
  if (had_terminal) drop_flows(id);  // hangs up on what is left in it
  if (id != shell_run_) return;
  shell_run_ = kSessionId;
  // The next run finds its shell and its pipes ready. Whatever fails is tried again, and reported,
  // when it comes.
  if (!shell_->is_running()) (void)start_shell();
  shell_->prepare();
  (void)shell_->note_older();  // what may be left is met by the next run's end
}

}  // namespace glovebox::guest
