#include "doctor/probe_child.h"

#include "base/pidfd.h"
#include "base/pipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <type_traits>

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

Reply without_reply(const std::optional<Reaped>& reaped) {
  if (reaped && (reaped->info.si_code == CLD_KILLED || reaped->info.si_code == CLD_DUMPED)) {
    return wrong(fmt::format("the trial was killed by signal {}", reaped->info.si_status));
  }
  return wrong("the trial ended without an answer");
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

Reply failed(std::string_view act, const Error& error) {
  errno = error.os_errno;
  return failed(act);
}

Reply wrong(std::string_view what, Cause cause) {
  Reply reply;
  reply.cause = cause;
  set_text(reply, what);
  return reply;
}

Reply run_trial(const Body& body, std::chrono::milliseconds timeout) {
  auto pipe = open_pipe();
  if (!pipe) return failed("make a pipe", pipe.error());
  const pid_t pid = ::fork();
  if (pid < 0) return failed("fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    ::setpgid(0, 0);
    answer_and_end(pipe->write.get(), body);
  }
  ::setpgid(pid, pid);  // in parent and child: one of them is first
  pipe->write.reset();
  const auto pidfd = open_pidfd(pid);
  if (!pidfd) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return failed("open a pidfd", pidfd.error());
  }
  const bool answered = wait_readable(pipe->read.get(), timeout);
  const std::optional<Reply> reply = answered ? read_reply(pipe->read.get()) : std::nullopt;
  // With an answer the child is about to end by itself; without one it does not get to.
  if (!answered || !wait_readable(pidfd->get(), timeout)) (void)kill_process(*pidfd);
  // Its group has the processes it started, and the number is ours until the child is reaped.
  ::kill(-pid, SIGKILL);
  const std::optional<Reaped> reaped = reap_process(*pidfd);
  if (!answered) return wrong(fmt::format("no answer within {} ms", timeout.count()));
  return reply ? *reply : without_reply(reaped);
}

Reply in_clone(const CloneRequest& request, const Body& body) {
  auto pipe = open_pipe();
  if (!pipe) return failed("make a pipe", pipe.error());
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
      (void)kill_process(pidfd);
      (void)reap_process(pidfd);
      return *verdict;
    }
  }
  const std::optional<Reply> reply = read_reply(pipe->read.get());
  const std::optional<Reaped> reaped = reap_process(pidfd);
  return reply ? *reply : without_reply(reaped);
}

}  // namespace glovebox::host::probe
