#include "launch/child/context.h"
#include "launch/child/init_message.h"
#include "launch/child/read_back.h"
#include "launch/child/sys.h"

#include <csignal>

#include <elf.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

namespace glovebox::launch {
namespace {

constexpr int kRefused = 125;
constexpr int kStatusFd = 3;
constexpr int kFirstCgroupFd = 4;

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#endif

// What the command's process leaves behind for init when it could not become the command. It lives
// on init's stack: the process made by vfork shares it until it executes or ends. Volatile, because
// to the compiler the path that writes it never returns to the one that reads it.
struct ExecFailure {
  volatile ExecProblem problem = ExecProblem::None;
  volatile int os_errno = 0;
  volatile char interpreter[kMaxInterpreter] = {};

  void set(ExecProblem why, int number) noexcept {
    problem = why;
    os_errno = number;
  }
};

std::uint64_t now_ns() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(time.tv_nsec);
}

void send_message(int fd, const Message& message, std::span<const int> attached = {}) noexcept {
  iovec part{const_cast<Message*>(&message), sizeof(message)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxAttachedFds)] = {};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  if (!attached.empty() && attached.size() <= kMaxAttachedFds) {
    const std::size_t bytes = attached.size() * sizeof(int);
    packet.msg_control = control;
    packet.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* header = CMSG_FIRSTHDR(&packet);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    __builtin_memcpy(CMSG_DATA(header), attached.data(), bytes);
  }
  // A supervisor that is gone ends this process by its parent-death signal; nothing else to do
  // here.
  (void)::sendmsg(fd, &packet, MSG_NOSIGNAL);
}

// Says why a file could not be executed, beyond what errno tells. Runs inside the finished box,
// with no authority the command would not have had.
ExecProblem diagnose(const char* file, int os_errno) noexcept {
  if (os_errno == EACCES || os_errno == EPERM) return ExecProblem::NotAllowed;
  if (os_errno == ENOENT) {
    return ::faccessat(AT_FDCWD, file, F_OK, 0) == 0 ? ExecProblem::InterpreterMissing
                                                     : ExecProblem::NotFound;
  }
  if (os_errno == ENOTDIR) return ExecProblem::NotFound;
  if (os_errno != ENOEXEC) return ExecProblem::Other;
  unsigned char head[20] = {};
  const int fd = ::openat(AT_FDCWD, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const ssize_t size = fd >= 0 ? ::read(fd, head, sizeof(head)) : 0;
  sys::close_quietly(fd);
  if (size != sizeof(head) || __builtin_memcmp(head, ELFMAG, SELFMAG) != 0) {
    return ExecProblem::NotAProgram;
  }
  const auto machine = static_cast<std::uint16_t>(head[18] | head[19] << 8);
  const bool ours = machine == kMachine && head[EI_CLASS] == ELFCLASS64;
  return ours ? ExecProblem::NotAProgram : ExecProblem::OtherArchitecture;
}

// The interpreter that a script names on its first line, as far as it fits.
void note_interpreter(const char* file, ExecFailure* failure) noexcept {
  char head[kMaxInterpreter + 2] = {};
  const int fd = ::openat(AT_FDCWD, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const ssize_t size = fd >= 0 ? ::read(fd, head, sizeof(head) - 1) : 0;
  sys::close_quietly(fd);
  if (size < 3 || head[0] != '#' || head[1] != '!') return;
  std::size_t from = 2;
  while (head[from] == ' ' || head[from] == '\t') ++from;
  for (std::size_t i = 0; i + 1 < kMaxInterpreter; ++i) {
    const char c = head[from + i];
    if (c == '\0' || c == '\n' || c == ' ' || c == '\t' || from + i + 1 >= sizeof(head)) break;
    failure->interpreter[i] = c;
  }
}

// Runs in the process made by vfork: on init's memory, until execve.
[[noreturn]] void become_command(const ChildContext& context, ExecFailure* failure) noexcept {
  if (const pid_t session = ::setsid(); session <= 0) {
    failure->set(ExecProblem::Other, session == 0 ? kNotInForce : errno);
    ::_exit(kRefused);
  }
  if (context.terminal_fd >= 0 && ::ioctl(0, TIOCSCTTY, 0) != 0 && ::ioctl(1, TIOCSCTTY, 0) != 0 &&
      ::ioctl(2, TIOCSCTTY, 0) != 0) {
    failure->set(ExecProblem::Other, errno);
    ::_exit(kRefused);
  }
  for (std::size_t i = 0; i < context.cgroup_fds.size(); ++i) {
    if (::write(kFirstCgroupFd + static_cast<int>(i), "0", 1) != 1) {
      failure->set(ExecProblem::Other, errno);
      ::_exit(kRefused);
    }
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ExecProblem last = ExecProblem::NotFound;
  int last_errno = ENOENT;
  for (const char* file : context.candidates) {
    ::execve(file, context.argv, context.envp);
    const int os_errno = errno;
    const ExecProblem problem = diagnose(file, os_errno);
    if (problem == ExecProblem::NotFound) continue;
    last = problem;
    last_errno = os_errno;
    if (problem == ExecProblem::InterpreterMissing) note_interpreter(file, failure);
    if (problem != ExecProblem::NotAllowed) break;  // as a shell, look on past what is not allowed
  }
  failure->set(last, last_errno);  // only now: init looks after a successful execve too
  ::_exit(kRefused);
}

[[gnu::noinline]] pid_t start_command(const ChildContext& context, ExecFailure* failure) noexcept {
  const pid_t pid = ::vfork();  // NOLINT: the child only sets itself up and executes
  if (pid == 0) become_command(context, failure);
  return pid;
}

// The helpers of the set-up are counted as processes until the kernel has put them away, a moment
// after their work is done. With a very small limit there is no room for the command until then.
pid_t start_when_possible(const ChildContext& context, ExecFailure* failure) noexcept {
  constexpr int kMoments = 200;
  constexpr timespec kMoment{0, 250'000};
  pid_t pid = start_command(context, failure);
  for (int i = 0; pid < 0 && errno == EAGAIN && i < kMoments; ++i) {
    ::nanosleep(&kMoment, nullptr);
    pid = start_command(context, failure);
  }
  return pid;
}

// Passes signals on until told to stop. False when the supervisor is gone or talks nonsense.
bool take_order(int fd, pid_t command) noexcept {
  Order order{};
  const ssize_t size = ::recv(fd, &order, sizeof(order), MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  if (size != sizeof(order) || order.kind != kOrderSignal) return false;
  if (order.signal < 1 || order.signal > 64) return false;
  // The whole session that the command leads; the command alone if it has left its group.
  if (::kill(-command, order.signal) != 0) ::kill(command, order.signal);
  return true;
}

// Reaps everything that has ended. True when the command itself has, with its status.
bool reap(pid_t command, int* status) noexcept {
  bool ended = false;
  while (true) {
    int one = 0;
    const pid_t pid = ::waitpid(-1, &one, WNOHANG);
    if (pid < 0 && errno != ECHILD) ::_exit(kRefused);
    if (pid <= 0) return ended;
    if (pid == command) {
      *status = one;
      ended = true;
    }
  }
}

// PID 1 of the box. Its end is the end of every process in it: the kernel kills them all.
[[noreturn]] void be_init(pid_t command, int child_signals, Message& message) noexcept {
  while (true) {
    pollfd waits[2] = {{child_signals, POLLIN, 0}, {kStatusFd, POLLIN, 0}};
    if (::poll(waits, 2, -1) < 0 && errno != EINTR) ::_exit(kRefused);
    if (waits[0].revents != 0) {
      signalfd_siginfo drained;
      (void)!::read(child_signals, &drained, sizeof(drained));  // only the wake-up matters
      int status = 0;
      if (reap(command, &status)) {
        message.kind = MessageKind::Exited;
        message.wait_status = status;
        message.timed = 0;
        send_message(kStatusFd, message);
        ::_exit(0);
      }
    }
    if (waits[1].revents != 0 && !take_order(kStatusFd, command)) ::_exit(kRefused);
  }
}

// init is a copy of the launcher, and /proc/1/cmdline is read by everybody in the box: it must not
// show the launcher's arguments.
void hide_command_line(const ChildContext& context) noexcept {
  constexpr char kName[] = "glovebox-init";
  for (char& c : context.title) c = '\0';
  const std::size_t size = context.title.size() < sizeof(kName) ? 0 : sizeof(kName);
  for (std::size_t i = 0; i < size; ++i) context.title[i] = kName[i];
  (void)::prctl(PR_SET_NAME, kName, 0, 0, 0);  // a name is no protection
}

bool is_alive(int pidfd) noexcept {
  pollfd ended{pidfd, POLLIN, 0};
  return ::poll(&ended, 1, 0) == 0;
}

// The number of a place is also what dup3 answers for it.
bool is_same_file(int one, int other) noexcept {
  struct stat first{};
  struct stat second{};
  // No file has inode 0: it stands for a question that was not asked.
  return ::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 && first.st_ino != 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

[[noreturn]] void give_up(int fd, Message& message) noexcept {
  send_message(fd, message);
  ::_exit(kRefused);
}

}  // namespace

// Moves what must stay to fixed places, then closes everything above them. The launcher promises
// that each source is either at its place already or above 2.
bool close_files(ChildContext& context) noexcept {
  // The launcher may have died before this process asked to die with it. By now the kernel has told
  // everybody who asked in time.
  if (!is_alive(context.launcher_fd)) {
    errno = ESRCH;
    return false;
  }
  for (int i = 0; i < 3; ++i) {
    const int source = context.stdio[i] >= 0 ? context.stdio[i] : context.terminal_fd;
    if (source == i) continue;
    if (source < 3 || ::syscall(SYS_dup3, source, i, 0) != i) return false;
    if (!is_same_file(source, i)) return not_in_force();
  }
  int kept[kMaxCgroupFds + kResolverFds + kMaxLayerFds + 2];
  int count = 0;
  kept[count++] = context.status_fd;
  for (const int fd : context.cgroup_fds) kept[count++] = fd;
  const int first_resolver = kStatusFd + count;
  for (const int fd : context.resolver_fds) {
    if (context.has_resolver) kept[count++] = fd;
  }
  const int first_layer = kStatusFd + count;
  for (std::size_t i = 0; i < context.layer_count; ++i) kept[count++] = context.layer_fds[i];
  if (context.terminal_main >= 0) kept[count++] = context.terminal_main;
  // Above the places first, then down: no source is overwritten before it is copied.
  for (int i = 0; i < count; ++i) {
    kept[i] = ::fcntl(kept[i], F_DUPFD_CLOEXEC, kStatusFd + count);
    if (kept[i] < 0) return false;
  }
  for (int i = 0; i < count; ++i) {
    if (::syscall(SYS_dup3, kept[i], kStatusFd + i, O_CLOEXEC) != kStatusFd + i) return false;
  }
  context.status_fd = kStatusFd;
  for (std::size_t i = 0; i < kResolverFds && context.has_resolver; ++i) {
    context.resolver_fds[i] = first_resolver + static_cast<int>(i);
  }
  for (std::size_t i = 0; i < context.layer_count; ++i) {
    context.layer_fds[i] = first_layer + static_cast<int>(i);
  }
  if (context.terminal_main >= 0) context.terminal_main = kStatusFd + count - 1;
  context.files_are_closed = true;
  return sys::close_range(static_cast<unsigned>(kStatusFd + count), ~0U) &&
         has_files_up_to(kStatusFd + count - 1);
}

namespace {

bool receive_cgroups(ChildContext& context) noexcept {
  Order order{};
  iovec part{&order, sizeof(order)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxCgroupFds)] = {};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  packet.msg_control = control;
  packet.msg_controllen = sizeof(control);
  const ssize_t size = ::recvmsg(context.status_fd, &packet, MSG_CMSG_CLOEXEC);
  if (size < 0) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&packet);
  const std::size_t count = 2 * context.cgroups_awaited;
  const std::size_t bytes = count * sizeof(int);
  if (size != sizeof(order) || order.kind != kOrderJoin || header == nullptr ||
      header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(bytes)) {
    errno = EPROTO;
    return false;
  }
  __builtin_memcpy(context.awaited_fds, CMSG_DATA(header), bytes);
  context.cgroup_fds = {context.awaited_fds, context.cgroups_awaited};
  context.leave_fds = {context.awaited_fds + context.cgroups_awaited, context.cgroups_awaited};
  return true;
}

bool move_into(std::span<const int> tasks) noexcept {
  for (const int fd : tasks) {
    if (::write(fd, "0", 1) != 1) return false;
  }
  return true;
}

}  // namespace

// A cgroup namespace is rooted where its maker stands: so go in, make it, and go out again. init
// does not stay, for the cgroup must be empty when the command is gone.
bool enter_cgroups(ChildContext& context) noexcept {
  if (2 * context.cgroups_awaited > kMaxCgroupFds || context.cgroup_fds.size() > kMaxCgroupFds) {
    errno = EINVAL;
    return false;
  }
  if (context.cgroups_awaited > 0 && !receive_cgroups(context)) return false;
  // An agent stays: what it starts is born where it is.
  return move_into(context.cgroup_fds) && ::syscall(SYS_unshare, CLONE_NEWCGROUP) == 0 &&
         (context.agent != nullptr || move_into(context.leave_fds));
}

namespace {

// Runs one list and notes what each step took. `offset` is where the list begins in the count.
void run_list(ChildContext& context, std::span<const plan::FlatStep> list, std::size_t offset,
              Message& message) noexcept {
  std::uint64_t before = now_ns();
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!run_step(context, list[i])) {
      message.kind = MessageKind::StepFailed;
      message.step = static_cast<std::uint32_t>(offset + i);
      message.os_errno = errno;
      give_up(context.status_fd, message);
    }
    const std::uint64_t after = now_ns();
    if (offset + i < kTimedSteps - 1) {
      message.times[offset + i] = static_cast<std::uint32_t>(after - before);
    }
    before = after;
  }
}

// Trees that the launcher had no right to open: as an ordinary user only this process, in its own
// namespaces, may copy mounts.
void open_own_trees(ChildContext& context, Message& message) noexcept {
  for (std::size_t i = 0; i < context.tree_fds.size(); ++i) {
    if (context.tree_fds[i] >= 0) continue;
    const plan::FlatTree& tree = context.trees[i];
    context.tree_fds[i] =
        open_host_tree(context.strings + tree.path, tree, tree.attributes, /*userns=*/-1);
    if (context.tree_fds[i] >= 0) continue;
    message.kind = MessageKind::TreeFailed;
    message.step = static_cast<std::uint32_t>(i);
    message.os_errno = errno;
    give_up(context.status_fd, message);
  }
}

void run_steps(ChildContext& context, Message& message) noexcept {
  run_list(context, context.early, 0, message);
  open_own_trees(context, message);
  if (!context.base_is_built) run_list(context, context.base, context.early.size(), message);
  const std::size_t before_box = context.early.size() + context.base.size();
  run_list(context, context.box.first(context.park_after), before_box, message);
  if (context.order_fd >= 0 && !await_order(context)) ::_exit(kRefused);
  run_list(context, context.box.subspan(context.park_after), before_box + context.park_after,
           message);
  // A plan that does not wait for its helpers would leave a thread with rights beside the command.
  if (context.network->running || context.unmount->running) ::_exit(kRefused);
  const std::size_t all = before_box + context.box.size();
  message.timed = static_cast<std::uint32_t>(all < kTimedSteps - 1 ? all : kTimedSteps - 1);
}

}  // namespace

namespace {

// From here on this process is an ordinary program inside the box: the launcher that it is a copy
// of had one thread, so its memory is whole.
[[noreturn]] void become_agent(const ChildContext& context, Message& message) noexcept {
  message.kind = MessageKind::Started;
  send_message(context.status_fd, message);
  if (!sys::close_range(static_cast<unsigned>(kFirstCgroupFd), ~0U)) ::_exit(kRefused);
  ::_exit(context.agent(context.status_fd));
}

}  // namespace

namespace {

// The box's code gets no hand on any of these: they leave before it runs.
void hand_over_network(ChildContext& context, Message& message) noexcept {
  if (context.listener_fd < 0) return;
  const int fds[kNetworkFds] = {context.listener_fd, context.resolver_fds[0],
                                context.resolver_fds[1]};
  const std::size_t count = context.has_resolver ? kNetworkFds : 1;
  message.kind = MessageKind::Network;
  send_message(context.status_fd, message, {fds, count});
  for (std::size_t i = 0; i < count; ++i) sys::close_quietly(fds[i]);
}

// The same holds for these.
void hand_over_layers(ChildContext& context, Message& message) noexcept {
  if (context.layer_count == 0) return;
  message.kind = MessageKind::Layers;
  send_message(context.status_fd, message, {context.layer_fds, context.layer_count});
  for (std::size_t i = 0; i < context.layer_count; ++i) sys::close_quietly(context.layer_fds[i]);
}

}  // namespace

void run_box(ChildContext& context) noexcept {
  Message message{};
  NetworkHelper network;
  context.network = &network;
  Helper unmount;
  context.unmount = &unmount;
  hide_command_line(context);
  // With its own copy of the other end, this process would never learn that the supervisor is gone.
  sys::close_quietly(context.status_outside);
  ::umask(0);
  // The launcher's death is the box's. The change of identity clears this; map_identity sets it
  // again.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (context.order_fd >= 0 && !begin_parked(context)) ::_exit(kRefused);
  run_steps(context, message);
  const std::uint64_t before = now_ns();
  ::umask(022);
  hand_over_network(context, message);
  hand_over_layers(context, message);
  if (context.agent != nullptr) become_agent(context, message);

  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  const int child_signals = ::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  ExecFailure failure;
  const pid_t command = child_signals >= 0 ? start_when_possible(context, &failure) : -1;
  if (command < 0 || failure.problem != ExecProblem::None) {
    message.kind = MessageKind::ExecFailed;
    message.exec_problem = command < 0 ? ExecProblem::Other : failure.problem;
    message.os_errno = command < 0 ? errno : failure.os_errno;
    for (std::size_t i = 0; i < kMaxInterpreter; ++i)
      message.interpreter[i] = failure.interpreter[i];
    give_up(context.status_fd, message);
  }
  message.times[message.timed] = static_cast<std::uint32_t>(now_ns() - before);
  ++message.timed;
  message.kind = MessageKind::Started;
  const bool has_terminal = context.terminal_main >= 0;
  send_message(context.status_fd, message, {&context.terminal_main, has_terminal ? 1U : 0U});
  sys::close_quietly(context.terminal_main);
  be_init(command, child_signals, message);
}

}  // namespace glovebox::launch
