#include "doctor/probe_child.h"

#include "base/unique_fd.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <type_traits>

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::host::probe {
namespace {

using Clock = std::chrono::steady_clock;

static_assert(std::is_trivially_copyable_v<Reply>);

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

std::optional<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void set_text(Reply& reply, std::string_view text) {
  const std::size_t length = std::min(text.size(), reply.text.size() - 1);
  std::copy_n(text.begin(), length, reply.text.begin());
}

// Bytes from a child are input: what is not a whole and sane reply is none.
bool is_sane(const Reply& reply) {
  return reply.magic == Reply::kMagic &&
         static_cast<std::uint32_t>(reply.outcome) <= kLastOutcome &&
         static_cast<std::uint32_t>(reply.cause) <= kLastCause && reply.text.back() == '\0' &&
         std::all_of(reply.text.begin(), reply.text.end(),
                     [](char c) { return c == '\0' || static_cast<unsigned char>(c) >= ' '; });
}

// Waits until the pipe has something to read or has no writer. A negative timeout waits for ever.
bool wait_readable(int fd, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd wanted{fd, POLLIN, 0};
    const int wait = timeout.count() < 0 ? -1 : static_cast<int>(std::max<long>(left.count(), 0));
    const int ready = ::poll(&wanted, 1, wait);
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) return false;
  }
}

// A reply is shorter than PIPE_BUF, so it arrives whole or not at all.
std::optional<Reply> read_reply(int fd) {
  Reply reply;
  ssize_t size = -1;
  do {
    size = ::read(fd, &reply, sizeof(reply));
  } while (size < 0 && errno == EINTR);
  if (size != static_cast<ssize_t>(sizeof(reply)) || !is_sane(reply)) return std::nullopt;
  return reply;
}

[[noreturn]] void answer_and_end(int fd, const Body& body) {
  int code = 1;
  try {
    const Reply reply = body();
    code = ::write(fd, &reply, sizeof(reply)) == static_cast<ssize_t>(sizeof(reply)) ? 0 : 1;
  } catch (...) {
    code = 2;  // no reply: the parent says so
  }
  ::_exit(code);
}

siginfo_t reap(int pidfd) {
  siginfo_t info{};
  while (::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd), &info,
                  WEXITED | __WALL) != 0 &&
         errno == EINTR) {
  }
  return info;
}

Reply without_reply(const siginfo_t& info) {
  if (info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED) {
    return wrong(fmt::format("the trial was killed by signal {}", info.si_status));
  }
  return wrong("the trial ended without an answer");
}

void send_kill(int pidfd) {
  // Fails when it has ended already, which is what is wanted.
  (void)::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
}

}  // namespace

std::string_view Reply::view() const { return {text.data(), ::strnlen(text.data(), text.size())}; }

Reply seen(std::string_view what) {
  Reply reply;
  reply.outcome = Outcome::Ok;
  set_text(reply, what);
  return reply;
}

Reply not_applicable(std::string_view why) {
  Reply reply;
  reply.outcome = Outcome::NotApplicable;
  set_text(reply, why);
  return reply;
}

Reply failed(std::string_view act, Cause cause) {
  Reply reply;
  reply.os_errno = errno;
  reply.cause = cause;
  set_text(reply, act);
  return reply;
}

Reply wrong(std::string_view what, Cause cause) {
  Reply reply;
  reply.cause = cause;
  set_text(reply, what);
  return reply;
}

Reply run_trial(const Body& body, std::chrono::milliseconds timeout) {
  auto pipe = make_pipe();
  if (!pipe) return failed("make a pipe");
  const pid_t pid = ::fork();
  if (pid < 0) return failed("fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    ::setpgid(0, 0);
    answer_and_end(pipe->write.get(), body);
  }
  ::setpgid(pid, pid);  // in parent and child: one of them is first
  pipe->write.reset();
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) {
    const Reply reply = failed("open a pidfd");
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return reply;
  }
  const bool answered = wait_readable(pipe->read.get(), timeout);
  const std::optional<Reply> reply = answered ? read_reply(pipe->read.get()) : std::nullopt;
  // With an answer the child is about to end by itself; without one it does not get to.
  if (!answered || !wait_readable(pidfd.get(), timeout)) send_kill(pidfd.get());
  // Its group has the processes it started, and the number is ours until the child is reaped.
  ::kill(-pid, SIGKILL);
  const siginfo_t info = reap(pidfd.get());
  if (!answered) return wrong(fmt::format("no answer within {} ms", timeout.count()));
  return reply ? *reply : without_reply(info);
}

Reply in_clone(const CloneRequest& request, const Body& body) {
  auto pipe = make_pipe();
  if (!pipe) return failed("make a pipe");
  int number = -1;
  clone_args args{};
  args.flags = request.flags | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<std::uint64_t>(&number);
  args.exit_signal = SIGCHLD;
  if (request.cgroup >= 0) args.cgroup = static_cast<std::uint64_t>(request.cgroup);
  const long pid = ::syscall(SYS_clone3, &args, sizeof(args));
  if (pid < 0) return failed("clone3", request.cause);
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    answer_and_end(pipe->write.get(), body);
  }
  const UniqueFd pidfd(number);
  pipe->write.reset();
  if (request.in_parent) {
    if (const auto verdict = request.in_parent(static_cast<pid_t>(pid), pidfd.get())) {
      send_kill(pidfd.get());
      (void)reap(pidfd.get());
      return *verdict;
    }
  }
  const std::optional<Reply> reply = read_reply(pipe->read.get());
  const siginfo_t info = reap(pidfd.get());
  return reply ? *reply : without_reply(info);
}

}  // namespace glovebox::host::probe
