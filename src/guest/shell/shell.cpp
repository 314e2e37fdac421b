#include "guest/shell/shell.h"

#include "base/file.h"
#include "base/pipe.h"
#include "guest/shell/shell_text.h"
#include "guest/shell/spawn.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <unistd.h>

namespace glovebox::guest {
namespace {

constexpr std::size_t kMaxMark = 64;
constexpr int kSnapshotWaitMs = 200;
constexpr char kRunFile[] = "r";
constexpr char kSnapshotFile[] = "x";
constexpr char kFreshSnapshotFile[] = "n";

ShellKind kind_of(std::string_view file) {
  return file.substr(file.rfind('/') + 1) == "bash" ? ShellKind::Bash : ShellKind::Sh;
}

}  // namespace

PersistentShell::PersistentShell(PrivateDir& dir, std::vector<std::string> candidates,
                                 std::vector<std::string> env, std::string cwd)
    : dir_(&dir), candidates_(std::move(candidates)), env_(std::move(env)), cwd_(std::move(cwd)) {}

Result<void> PersistentShell::start() {
  for (const std::string& file : candidates_) {
    if (::access(file.c_str(), X_OK) != 0) continue;
    const auto started = start_file(file);
    if (started || started.error().os_errno != EACCES) return started;
  }
  kind_ = ShellKind::None;
  return fail(Code::NotFound, "the box has no shell");
}

Result<void> PersistentShell::start_file(const std::string& file) {
  TRY(Pipe control, open_pipe());
  TRY(Pipe marks, open_pipe());
  TRY_VOID(set_nonblocking(control.write));
  TRY_VOID(set_nonblocking(marks.read));
  TRY(const UniqueFd null, open_file("/dev/null", O_WRONLY));
  SpawnRequest request;
  request.files = {file};
  request.argv = persistent_shell_argv(kind_of(file), file);
  request.env = env_;
  request.cwd = cwd_;
  request.stdio = {control.read.get(), null.get(), null.get()};
  request.extra_fd = marks.write.get();
  request.extra_number = mark_number(kind_of(file));
  request.orphans = SpawnRequest::Orphans::Adopted;
  TRY(pid_, spawn(request));
  session_ = pid_;  // spawn() makes it the first of a session
  kind_ = kind_of(file);
  file_ = file;
  control_ = std::move(control.write);
  marks_ = std::move(marks.read);
  heard_.clear();
  older_.clear();
  ready_ = false;
  return tell(first_line(kind_));
}

void PersistentShell::ended() {
  pid_ = -1;
  control_.reset();
  marks_.reset();
  nonce_.clear();
  end_.reset();
  become_quiet();
}

Result<void> PersistentShell::tell(std::string_view lines) {
  // Less than PIPE_BUF, so it is written whole or not at all.
  if (::write(control_.get(), lines.data(), lines.size()) < 0) {
    return fail_os(errno, "speak to the shell");
  }
  return {};
}

Result<void> PersistentShell::make_nonce() {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof(random), 0) != sizeof(random)) {
    return fail_os(errno, "get random bytes");
  }
  nonce_ = fmt::format("{:016x}", random);
  interrupt_when_ready_ = false;
  interrupted_ = false;
  end_.reset();
  input_opened_ = false;
  return {};
}

std::string PersistentShell::name_of(char kind, std::size_t set) {
  return fmt::format("{}{}", kind, set);
}

// A pipe that was kept, if its name still leads to it and no process has it open; else a new one.
// Only the reading end is open: as long as no other process reads it, none sees an end too early.
Result<NamedPipe> PersistentShell::take_pipe(std::optional<NamedPipe>& kept,
                                             std::string_view name) {
  std::optional<NamedPipe> pipe = std::exchange(kept, std::nullopt);
  if (pipe && PrivateDir::is_there(*pipe) && PrivateDir::is_idle(*pipe)) return *std::move(pipe);
  TRY(NamedPipe fresh, dir_->make_pipe(name));
  fresh.write.reset();
  return fresh;
}

void PersistentShell::prepare() {
  const std::size_t next = 1 - set_;
  PipeSet& set = sets_.at(next);
  // What fails now is tried again, and reported, when it is needed.
  if (!set.output) {
    if (auto made = take_pipe(set.output, name_of('o', next))) set.output = *std::move(made);
  }
  if (!set.error) {
    if (auto made = take_pipe(set.error, name_of('e', next))) set.error = *std::move(made);
  }
}

Result<ShellPipes> PersistentShell::take_pipes(RunIo io, RunInput input) {
  // What came between two runs, such as the words of a trap, would fill the other set.
  for (const auto& pipe : {&sets_.at(set_).output, &sets_.at(set_).error}) {
    if (*pipe) (void)PrivateDir::is_idle(**pipe);
  }
  const std::size_t next = 1 - set_;
  ShellPipes pipes;
  TRY(pipes.output, take_pipe(sets_.at(next).output, name_of('o', next)));
  if (io == RunIo::Pipes) {
    TRY(pipes.error, take_pipe(sets_.at(next).error, name_of('e', next)));
  }
  if (input == RunInput::Streamed) {
    TRY(pipes.input, dir_->make_pipe("i"));
  }
  set_ = next;
  return pipes;
}

void PersistentShell::keep_pipes(ShellPipes pipes) {
  sets_.at(set_).output = std::move(pipes.output);
  if (pipes.error) sets_.at(set_).error = std::move(pipes.error);
}

Result<void> PersistentShell::begin(const StartRun& run, std::string_view code,
                                    const std::string& cwd, const ShellPipes& pipes) {
  ShellRunText text;
  text.output = pipes.output.path;
  text.error = pipes.of_errors().path;
  if (pipes.input) text.input = pipes.input->path;
  text.cwd = cwd;
  text.env = run.env;
  text.code = code;
  TRY_VOID(dir_->write_file(kRunFile, run_file_text(kind_, text)));
  TRY_VOID(make_nonce());
  run_start_ = ticks_now();
  last_nonce_ = nonce_;
  auto told = tell(run_lines(kind_, dir_->path_of(kRunFile), nonce_));
  if (!told) nonce_.clear();
  return told;
}

void PersistentShell::read_marks() {
  std::array<char, 512> buffer;
  while (marks_) {
    const ssize_t size = ::read(marks_.get(), buffer.data(), buffer.size());
    if (size <= 0) return;
    for (const char c : std::string_view(buffer.data(), static_cast<std::size_t>(size))) {
      if (c != '\n') {
        if (heard_.size() < kMaxMark) heard_ += c;
        continue;
      }
      const std::string line = std::exchange(heard_, {});
      if (line == kInputOpened) input_opened_ = true;
      if (line == kShellReady) become_ready();
      if (line.starts_with(kShellQuiet) && line.substr(kShellQuiet.size()) == last_nonce_) {
        become_quiet();
      }
      // Everything but the current nonce is noise: a second answer after an interrupt, or a guess.
      const auto mark = parse_mark(line);
      if (mark && !nonce_.empty() && mark->nonce == nonce_ && !end_) end_ = mark->status;
    }
  }
}

std::optional<std::uint32_t> PersistentShell::await_end(std::chrono::microseconds most) {
  using std::chrono::nanoseconds;
  const auto until = std::chrono::steady_clock::now() + most;
  while (true) {
    const nanoseconds left = until - std::chrono::steady_clock::now();
    const timespec time{0, std::max<std::int64_t>(left.count(), 0)};
    pollfd wait{marks_.get(), POLLIN, 0};
    if (::ppoll(&wait, 1, &time, nullptr) <= 0) return std::nullopt;
    if (const auto end = take_end()) return end;
    if ((wait.revents & POLLIN) == 0) return std::nullopt;  // it has ended itself
  }
}

// A copy that cannot be made is missed only by a shell that prints within a moment.
void PersistentShell::let_go_of(const ShellPipes& pipes) {
  older_readers_ = std::exchange(readers_, {});
  for (const NamedPipe* pipe : {&pipes.output, pipes.error ? &*pipes.error : nullptr}) {
    if (pipe == nullptr) continue;
    if (auto reader = duplicate_fd(pipe->read)) readers_.push_back(*std::move(reader));
  }
}

void PersistentShell::hush() {
  // A shell that does not read its lines is found out by the next run.
  if (pid_ > 0) (void)tell(quiet_line(kind_, last_nonce_));
}

std::optional<std::uint32_t> PersistentShell::take_end() {
  read_marks();
  if (!end_) return std::nullopt;
  nonce_.clear();
  return std::exchange(end_, std::nullopt);
}

void PersistentShell::become_quiet() {
  readers_.clear();
  older_readers_.clear();
}

void PersistentShell::become_ready() {
  ready_ = true;
  if (std::exchange(interrupt_when_ready_, false)) interrupt();
}

void PersistentShell::interrupt() {
  if (pid_ <= 0 || nonce_.empty()) return;
  interrupt_when_ready_ = !ready_;
  if (!ready_) return;
  ::kill(pid_, SIGINT);
  interrupted_ = true;
}

// An interrupt that meets the shell while it reads takes lines away that tell of the end. So a
// shell that has read everything and has not told is asked again; if it is still at work it answers
// later.
void PersistentShell::remind() {
  int unread = 0;
  if (pid_ <= 0 || !is_interrupted() || ::ioctl(control_.get(), FIONREAD, &unread) != 0) return;
  // A shell that does not read at all is killed in the end, so a full pipe may be ignored.
  if (unread == 0) (void)tell(end_lines(kind_, nonce_));
}

void PersistentShell::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

bool PersistentShell::note_older() {
  older_.clear();
  if (pid_ <= 0) return true;
  const auto text = read_file(fmt::format("/proc/{}/task/{}/children", pid_, pid_));
  if (!text) {  // a kernel without that file
    const auto processes = list_processes();
    if (!processes) return false;
    for (const ProcessInfo& process : descendants_of(pid_, *processes)) older_.insert(process.pid);
    return older_.empty();
  }
  const char* at = text->data();
  const char* const end = at + text->size();
  while (at < end) {
    pid_t pid = 0;
    const auto [next, error] = std::from_chars(at, end, pid);
    if (error == std::errc()) older_.insert(pid);
    at = error == std::errc() ? next + 1 : at + 1;
  }
  return older_.empty();
}

std::vector<ProcessInfo> PersistentShell::run_processes(const std::vector<ProcessInfo>& all) const {
  std::vector<ProcessInfo> below;
  if (pid_ > 0) {
    below = descendants_of(pid_, all);
  } else {
    std::ranges::copy_if(all, std::back_inserter(below),
                         [&](const ProcessInfo& process) { return process.session == session_; });
  }
  std::vector<ProcessInfo> found;
  std::set<pid_t> older = older_;
  for (const pid_t pid : older_) {
    for (const ProcessInfo& process : descendants_of(pid, all)) older.insert(process.pid);
  }
  for (const ProcessInfo& process : below) {
    // A tick is long: within the one in which the run began, only the note tells old from new.
    const bool is_older = process.start_ticks < run_start_ ||
                          (process.start_ticks == run_start_ && older.contains(process.pid));
    if (!is_older && process.state != 'Z') found.push_back(process);
  }
  return found;
}

// A shell that code has made deaf costs this wait, and the fresh shell its variables.
std::optional<std::uint32_t> PersistentShell::wait_for_end() {
  for (int waited = 0; waited < kSnapshotWaitMs; ++waited) {
    pollfd wait{marks_.get(), POLLIN, 0};
    (void)::poll(&wait, 1, 1);
    if (const auto end = take_end()) return end;
  }
  return std::nullopt;
}

std::string PersistentShell::snapshot() {
  if (pid_ <= 0 || is_busy()) return snapshot_;
  const std::string file = dir_->path_of(kSnapshotFile);
  const std::string fresh = dir_->path_of(kFreshSnapshotFile);
  if (!dir_->write_file(kFreshSnapshotFile, {}) || !make_nonce()) return snapshot_;
  // The file is put in place whole: shells that were started before may still be about to read it.
  if (tell(snapshot_lines(kind_, fresh, nonce_)) && wait_for_end() == 0U &&
      ::rename(fresh.c_str(), file.c_str()) == 0) {
    snapshot_ = file;
  }
  nonce_.clear();
  return snapshot_;
}

std::string PersistentShell::directory() const {
  if (pid_ <= 0) return {};
  std::array<char, 4096> path;
  const ssize_t size =
      ::readlink(fmt::format("/proc/{}/cwd", pid_).c_str(), path.data(), path.size());
  if (size <= 0 || static_cast<std::size_t>(size) == path.size()) return {};
  return {path.data(), static_cast<std::size_t>(size)};
}

}  // namespace glovebox::guest
