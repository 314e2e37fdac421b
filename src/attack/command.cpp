#include "attack/command.h"

#include "base/file.h"
#include "base/pidfd.h"
#include "base/pipe.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <span>

#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOutput = std::size_t{1} << 20;
constexpr int kRefused = 125, kSignal = 128;

struct Missing {
  std::string_view name;
  std::array<int, 3> calls;  // -1: none
  int error = ENOSYS;        // 0: the calls are answered and not made
};

constexpr Missing kMissing[] = {
    {"landlock", {SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self}},
    {"namespaces", {SYS_unshare, SYS_clone3, SYS_clone}},
    {"mounts", {SYS_mount_setattr, SYS_mount, -1}},
    {"seccomp", {SYS_seccomp, SYS_prctl, -1}},
    {"answered landlock", {SYS_landlock_restrict_self, -1, -1}, 0},
    {"answered seccomp", {SYS_seccomp, -1, -1}, 0},
    {"answered namespaces", {SYS_setns, SYS_unshare, -1}, 0},
    {"answered root", {SYS_pivot_root, -1, -1}, 0},
    {"answered mounts", {SYS_move_mount, -1, -1}, 0},
    {"answered capabilities", {SYS_capset, -1, -1}, 0},
    {"answered descriptors", {SYS_close_range, -1, -1}, 0},
};

// Makes these calls say ENOSYS from here on, as a kernel without them does; or 0, as a filter that
// answers in the kernel's place.
bool take_away(std::span<const int> calls, int error) {
  std::array<sock_filter, 8> filter{};
  std::size_t size = 0;
  filter[size++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto number = static_cast<std::uint32_t>(calls[i]);
    const auto to_the_end = static_cast<std::uint8_t>(calls.size() - i);
    filter[size++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, to_the_end, 0);
  }
  filter[size++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  filter[size++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error));
  const sock_fprog program{static_cast<unsigned short>(size), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

bool lower_to(Ids ids) {
  if (::geteuid() != 0 || ids.uid == 0) return true;
  return ::setgroups(0, nullptr) == 0 && ::setresgid(ids.gid, ids.gid, ids.gid) == 0 &&
         ::setresuid(ids.uid, ids.uid, ids.uid) == 0;
}

struct Streams {
  int input;
  int output;
};

// Between fork and exec: system calls alone. A descriptor that was forgotten is left open on
// purpose.
[[noreturn]] void become(const Command& command, Streams streams, const Missing* missing,
                         char* const argv[], char* const envp[]) {
  constexpr int kForgotten = 3;
  const int forgotten = command.forgotten.get();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::syscall(SYS_close_range, 3U, ~0U, 4U);  // CLOSE_RANGE_CLOEXEC
  if (forgotten >= 0 && ::dup2(forgotten, kForgotten) != kForgotten) ::_exit(kRefused);
  if (forgotten == kForgotten) ::fcntl(kForgotten, F_SETFD, 0);
  const bool have_streams = ::dup2(streams.input, 0) == 0 && ::dup2(streams.output, 1) == 1 &&
                            ::dup2(streams.output, 2) == 2;
  // A controlling terminal, as a user has: without it TIOCSTI is refused for another reason.
  if (::isatty(0) == 1) {
    ::setsid();
    ::ioctl(0, TIOCSCTTY, 0);
  }
  if (!have_streams || !lower_to(command.ids) || ::chdir(command.directory.c_str()) != 0) {
    ::_exit(kRefused);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of ids has taken it back
  ::signal(SIGPIPE, SIG_DFL);
  if (missing != nullptr) {
    std::size_t count = 0;
    while (count < missing->calls.size() && missing->calls[count] >= 0) ++count;
    if (!take_away(std::span(missing->calls).first(count), missing->error)) ::_exit(kRefused);
  }
  ::execve(argv[0], argv, envp);
  ::_exit(kRefused);
}

struct Started {
  pid_t pid = 0;
  UniqueFd process{};
  UniqueFd output{};  // does not block
};

Result<Started> start_program(const Command& command) {
  TRY(Pipe pipe, open_pipe());
  TRY_VOID(set_nonblocking(pipe.read));
  Started started{0, {}, std::move(pipe.read)};
  TRY(const UniqueFd nothing, open_file("/dev/null", O_RDONLY | O_CLOEXEC));
  std::vector<char*> argv, envp;
  for (const std::string& word : command.words) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& each : command.variables) {
    envp.push_back(const_cast<char*>(each.c_str()));
  }
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  const auto* missing = std::ranges::find(kMissing, command.without, &Missing::name);
  const int input = command.input.get() < 0 ? nothing.get() : command.input.get();
  started.pid = ::fork();
  if (started.pid < 0) return fail_os(errno, "start {}", command.words.front());
  if (started.pid == 0) {
    become(command, {input, pipe.write.get()}, missing == std::end(kMissing) ? nullptr : missing,
           argv.data(), envp.data());
  }
  if (auto process = open_pidfd(started.pid)) started.process = *std::move(process);
  return started;
}

int reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignal + WTERMSIG(status);
}

// A box's init may outlive the program that made the box for a moment, and is then this process's
// to reap: what is not reaped keeps its user's keyring, and there are not many of those.
void reap_boxes() {
  siginfo_t info{};
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0) {
    const auto name = read_file(fmt::format("/proc/{}/comm", info.si_pid));
    if (!name || *name != "glovebox-init\n") return;  // another part of this process waits for it
    (void)reap(info.si_pid);                          // how it ended was told by its maker
    info = {};
  }
}

// Reads until the pipe's end, or until the program is over and the pipe is empty. False when the
// patience is.
bool read_until_end(const Started& started, const Command& command, std::string& output) {
  const auto deadline = Clock::now() + command.patience;
  std::vector<pollfd> waits{{started.output.get(), POLLIN, 0}, {started.process.get(), POLLIN, 0}};
  if (command.attendant != nullptr) {
    for (const int fd : command.attendant->descriptors()) waits.push_back({fd, POLLIN, 0});
  }
  char piece[4096];
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    if (::poll(waits.data(), waits.size(), static_cast<int>(left.count())) < 0 && errno != EINTR) {
      return true;
    }
    if (command.attendant != nullptr) command.attendant->attend();
    const ssize_t count = ::read(started.output.get(), piece, sizeof(piece));
    if (count > 0 && output.size() < kMostOutput) {
      output.append(piece, static_cast<std::size_t>(count));
    } else if (count == 0 || (waits[1].revents != 0 && count < 0)) {
      return true;
    }
  }
}

}  // namespace

Words split_words(std::string_view text) {
  Words words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

Result<Ended> run_program(const Command& command) {
  TRY(const Started started, start_program(command));
  Ended ended;
  ended.timed_out = !read_until_end(started, command, ended.output);
  if (ended.timed_out) ::kill(started.pid, SIGKILL);
  ended.code = reap(started.pid);
  reap_boxes();
  return ended;
}

Result<Background> Background::start(const Command& command) {
  TRY(Started started, start_program(command));
  return Background(started.pid, std::move(started.process), std::move(started.output));
}

Background::Background(Background&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      process_(std::move(other.process_)),
      output_(std::move(other.output_)),
      said_(std::move(other.said_)) {}

// A term first: a service takes its boxes with it, and a box its processes.
Background::~Background() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  pollfd gone{process_.get(), POLLIN, 0};
  if (::poll(&gone, 1, 10'000) <= 0) ::kill(pid_, SIGKILL);
  (void)reap(pid_);  // how it ended is of no interest
}

bool Background::read_some() {
  char piece[4096];
  ssize_t count = 0;
  while ((count = ::read(output_.get(), piece, sizeof(piece))) > 0) {
    if (said_.size() < kMostOutput) said_.append(piece, static_cast<std::size_t>(count));
  }
  return count != 0;
}

Result<std::string> Background::next_line(std::chrono::seconds patience) {
  TRY_VOID(await("\n", patience));
  const std::size_t end = said_.find('\n');
  std::string line = said_.substr(0, end);
  said_.erase(0, end + 1);
  return line;
}

bool Background::has_said(std::string_view text) {
  (void)read_some();  // its end is not asked for here
  return said_.find(text) != std::string::npos;
}

bool Background::is_over() const {
  pollfd gone{process_.get(), POLLIN, 0};
  return ::poll(&gone, 1, 0) > 0;
}

void Background::await_end(std::chrono::seconds patience) const {
  pollfd gone{process_.get(), POLLIN, 0};
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(patience);
  (void)::poll(&gone, 1, static_cast<int>(limit.count()));  // is_over() tells
}

Result<void> Background::await(std::string_view text, std::chrono::seconds patience) {
  const auto deadline = Clock::now() + patience;
  while (said_.find(text) == std::string::npos) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd wait{output_.get(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) < 0 || !read_some()) {
      if (said_.find(text) != std::string::npos) break;
      return fail(Code::Os, "it did not say '{}' but: {}", text, said_);
    }
  }
  return {};
}

}  // namespace glovebox::app
