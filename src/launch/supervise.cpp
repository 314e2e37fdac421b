#include "launch/supervise.h"

#include "base/pidfd.h"
#include "launch/child/init_message.h"
#include "launch/exec_problem.h"
#include "launch/launcher.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

namespace glovebox::launch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr int kLimitExit = 124;
constexpr int kRefusedExit = 125;
constexpr int kTeardownPatienceMs = 10'000;
constexpr nanoseconds kShortestCpuCheck = std::chrono::milliseconds(2);
constexpr nanoseconds kPidsCheck = std::chrono::milliseconds(200);

class Supervisor {
 public:
  Supervisor(Box box, UniqueFd status, const plan::LaunchPlan& plan, Streams streams, int signals,
             Detail detail, NetworkDelegate* network)
      : box_(std::move(box)),
        status_(std::move(status)),
        plan_(plan),
        streams_(std::move(streams)),
        signals_(signals),
        detail_(detail),
        network_(network),
        started_(Clock::now()) {}

  ExitReport run();

 private:
  struct Waits {
    std::vector<pollfd> fds;
    std::vector<int> relay_index;  // -1 for the fixed ones
  };

  void prepare_watch();
  Waits collect() const;
  int timeout_ms();
  void dispatch(const Waits& waits);
  void on_status();
  void on_message(const Message& message, std::vector<UniqueFd> attached);
  void on_started(const Message& message, std::vector<UniqueFd> attached);
  void on_network(std::vector<UniqueFd> attached);
  void on_network_ready();
  void on_layers(std::vector<UniqueFd> attached);
  const plan::Step* step_at(std::size_t index) const;
  void note_times(const Message& message);
  void on_signal();
  void on_relay(const pollfd& ready, int index);
  void check_limits();
  void check_cpu();
  void end_by(LimitKind limit);
  void fail_with(EndReason reason, int code, std::string problem);
  void connect_terminal(UniqueFd terminal);
  std::uint64_t output_left() const;
  std::uint64_t output_bytes() const;
  void finish();
  bool await_init(int patience_ms);
  void read_usage();

  Box box_;
  UniqueFd status_;
  const plan::LaunchPlan& plan_;
  Streams streams_;
  int signals_;
  Detail detail_;
  NetworkDelegate* network_;
  bool has_network_ = false;
  Clock::time_point started_;
  Clock::time_point next_cpu_check_;
  ExitReport report_;
  bool running_ = true;
  bool command_started_ = false;
  UniqueFd terminal_size_;
};

void Supervisor::prepare_watch() {
  // Done while the box is starting, off its path. A watch that cannot be had is an end of the box:
  // the plan promised the limit.
  if (const auto watched = box_.cgroup.watch(); !watched) {
    box_.kill();
    fail_with(EndReason::Failed, kRefusedExit, watched.error().message);
  }
  box_.cgroup.sweep_leftovers();
  next_cpu_check_ = started_;
}

Supervisor::Waits Supervisor::collect() const {
  Waits waits;
  const auto add = [&](int fd, short events, int relay) {
    waits.fds.push_back({fd, events, 0});
    waits.relay_index.push_back(relay);
  };
  add(status_.get(), POLLIN, -1);
  add(signals_, POLLIN, -1);
  add(box_.cgroup.memory_event_fd(), POLLIN | POLLPRI, -1);
  add(box_.cgroup.pids_event_fd(), POLLPRI, -1);
  add(has_network_ ? network_->fd().get() : -1, POLLIN, -1);
  for (std::size_t i = 0; i < streams_.relays.size(); ++i) {
    const Relay& relay = streams_.relays[i];
    if (relay.wait_read_fd() >= 0) add(relay.wait_read_fd(), POLLIN, static_cast<int>(i));
    if (relay.wait_write_fd() >= 0) add(relay.wait_write_fd(), POLLOUT, static_cast<int>(i));
  }
  return waits;
}

int Supervisor::timeout_ms() {
  nanoseconds left = nanoseconds::max();
  const Clock::time_point now = Clock::now();
  if (plan_.watch.wall) left = std::min(left, nanoseconds(started_ + *plan_.watch.wall - now));
  if (plan_.watch.cpu_time) left = std::min(left, nanoseconds(next_cpu_check_ - now));
  // Cgroup version 1 does not tell when a fork is refused; its counter has to be polled.
  if (plan_.cgroup.version == host::CgroupVersion::V1) left = std::min(left, kPidsCheck);
  if (left == nanoseconds::max()) return -1;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<std::int64_t>(ms, 0, 3'600'000));
}

void Supervisor::dispatch(const Waits& waits) {
  // Output first: what was written before the end belongs to the run.
  for (std::size_t i = 0; i < waits.fds.size(); ++i) {
    if (waits.fds[i].revents != 0 && waits.relay_index[i] >= 0) {
      on_relay(waits.fds[i], waits.relay_index[i]);
    }
  }
  if (waits.fds[4].revents != 0) on_network_ready();
  if (running_ && waits.fds[1].revents != 0) on_signal();
  if (running_ && (waits.fds[2].revents | waits.fds[3].revents) != 0) check_limits();
  if (running_ && waits.fds[0].revents != 0) on_status();
}

void Supervisor::on_status() {
  Message message{};
  iovec part{&message, sizeof(message)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxAttachedFds)] = {};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  packet.msg_control = control;
  packet.msg_controllen = sizeof(control);
  const ssize_t size = ::recvmsg(status_.get(), &packet, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  // A peer that ended without reading all it was sent is told once, before what it had said itself.
  if (size < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET)) return;
  std::vector<UniqueFd> attached;
  const cmsghdr* header = CMSG_FIRSTHDR(&packet);
  if (size > 0 && header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      __builtin_memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
      attached.emplace_back(fd);
    }
  }
  if (size == sizeof(message) && (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0) {
    on_message(message, std::move(attached));
    return;
  }
  // The socket closes when init is gone. Without a farewell it was killed: by a limit of the
  // kernel's (its group kill takes init along), or from outside.
  check_limits();
  if (!running_) return;
  box_.kill();
  fail_with(EndReason::Failed, kRefusedExit,
            size == 0 ? "the box's init was killed" : "the box's init sent a malformed message");
}

void Supervisor::on_started(const Message& message, std::vector<UniqueFd> attached) {
  command_started_ = true;
  if (detail_ == Detail::Full) note_times(message);
  const std::size_t wanted = streams_.has_terminal ? 1 : 0;
  if (attached.size() != wanted || has_network_ != plan_.network.has_value() ||
      report_.layers.size() != plan::handed_layers(plan_).size()) {
    box_.kill();
    fail_with(EndReason::Failed, kRefusedExit,
              "the box's init sent other descriptors than planned");
    return;
  }
  if (streams_.has_terminal) connect_terminal(std::move(attached.front()));
}

void Supervisor::on_network(std::vector<UniqueFd> attached) {
  Result<void> taken = fail(Code::Os, "nobody answers for the box's network");
  if (network_ != nullptr && plan_.network && !has_network_) {
    auto files = network_files(std::move(attached), *plan_.network);
    taken = files ? network_->take(*std::move(files)) : tl::unexpected(files.error());
  }
  has_network_ = taken.has_value();
  if (has_network_) return;
  box_.kill();
  fail_with(EndReason::Failed, kRefusedExit, taken.error().message);
}

void Supervisor::on_network_ready() {
  const Result<void> done = network_->on_ready();
  if (done || !running_) return;
  box_.kill();
  fail_with(EndReason::Failed, kRefusedExit, done.error().message);
}

void Supervisor::on_layers(std::vector<UniqueFd> attached) {
  const bool is_planned =
      report_.layers.empty() && attached.size() == plan::handed_layers(plan_).size();
  report_.layers = std::move(attached);
  if (is_planned) return;
  box_.kill();
  fail_with(EndReason::Failed, kRefusedExit, "the box's init sent other layers than planned");
}

void Supervisor::on_message(const Message& message, std::vector<UniqueFd> attached) {
  const bool early = !command_started_;
  if (message.kind == MessageKind::Started && early && message.timed <= kTimedSteps) {
    return on_started(message, std::move(attached));
  }
  if (message.kind == MessageKind::Network && early) return on_network(std::move(attached));
  if (message.kind == MessageKind::Layers && early) return on_layers(std::move(attached));
  if (const plan::Step* step = step_at(message.step);
      message.kind == MessageKind::StepFailed && early && step != nullptr) {
    fail_with(EndReason::Failed, kRefusedExit, step_error(*step, message.os_errno).message);
    return;
  }
  if (message.kind == MessageKind::TreeFailed && early && message.step < plan_.trees.size()) {
    fail_with(EndReason::Failed, kRefusedExit,
              tree_error(plan_.trees[message.step].source.path, message.os_errno).message);
    return;
  }
  if (message.kind == MessageKind::ExecFailed && early) {
    const std::string_view interpreter(message.interpreter,
                                       ::strnlen(message.interpreter, kMaxInterpreter));
    const ExecSentence sentence =
        exec_sentence(message.exec_problem, message.os_errno, plan_.argv.front(), interpreter);
    fail_with(EndReason::Refused, sentence.exit_code, sentence.text);
    return;
  }
  if (message.kind == MessageKind::Exited && command_started_) {
    running_ = false;
    const int status = message.wait_status;
    report_.reason = WIFSIGNALED(status) ? EndReason::Signaled : EndReason::Exited;
    report_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    report_.exit_code = WIFSIGNALED(status) ? 128 + report_.signal : WEXITSTATUS(status);
    return;
  }
  box_.kill();
  fail_with(EndReason::Failed, kRefusedExit, "the box's init sent a message out of turn");
}

const plan::Step* Supervisor::step_at(std::size_t index) const {
  for (const auto* list : {&plan_.early, &plan_.base, &plan_.box}) {
    if (index < list->size()) return &(*list)[index];
    index -= list->size();
  }
  return nullptr;
}

void Supervisor::note_times(const Message& message) {
  for (std::size_t i = 0; i < message.timed; ++i) {
    const plan::Step* step = i + 1 < message.timed ? step_at(i) : nullptr;
    report_.times.push_back(
        {step != nullptr ? plan::to_text(*step) : std::string("exec"), message.times[i]});
  }
}

void Supervisor::on_signal() {
  signalfd_siginfo info{};
  if (::read(signals_, &info, sizeof(info)) != sizeof(info)) return;
  const int number = static_cast<int>(info.ssi_signo);
  if (number == SIGWINCH) {
    winsize size{};
    if (terminal_size_ && ::ioctl(streams_.terminal_output, TIOCGWINSZ, &size) == 0) {
      // A size that cannot be passed on changes nothing else.
      (void)::ioctl(terminal_size_.get(), TIOCSWINSZ, &size);
    }
    return;
  }
  const Order order{kOrderSignal, number};
  // Fails only when init is gone, which the status socket tells next.
  (void)::send(status_.get(), &order, sizeof(order), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Supervisor::connect_terminal(UniqueFd terminal) {
  // Read without blocking, or a silent box would keep its own limits from being looked at.
  const bool ready = terminal && ::fcntl(terminal.get(), F_SETFL, O_RDWR | O_NONBLOCK) == 0;
  if (ready) terminal_size_ = UniqueFd(::fcntl(terminal.get(), F_DUPFD_CLOEXEC, 3));
  UniqueFd input(ready ? ::fcntl(terminal.get(), F_DUPFD_CLOEXEC, 3) : -1);
  if (!ready || !terminal_size_ || !input) {
    box_.kill();
    fail_with(EndReason::Failed, kRefusedExit, "the box's terminal did not arrive");
    return;
  }
  if (streams_.terminal_output >= 0) {
    streams_.relays.emplace_back(Relay::End::own(std::move(terminal)),
                                 Relay::End::borrow(streams_.terminal_output),
                                 Relay::Direction::OutOfBox);
  }
  if (streams_.terminal_input >= 0) {
    streams_.relays.emplace_back(Relay::End::borrow(streams_.terminal_input),
                                 Relay::End::own(std::move(input)), Relay::Direction::IntoBox);
  }
}

std::uint64_t Supervisor::output_bytes() const {
  std::uint64_t total = 0;
  for (const Relay& relay : streams_.relays) {
    if (relay.direction() == Relay::Direction::OutOfBox) total += relay.bytes();
  }
  return total;
}

// One byte more than the limit may be read: it is how going over is noticed.
std::uint64_t Supervisor::output_left() const {
  if (!plan_.watch.output_bytes) return UINT64_MAX;
  const std::uint64_t used = output_bytes();
  const std::uint64_t limit = *plan_.watch.output_bytes;
  return used > limit ? 0 : limit - used + 1;
}

void Supervisor::on_relay(const pollfd& ready, int index) {
  Relay& relay = streams_.relays[static_cast<std::size_t>(index)];
  if ((ready.events & POLLOUT) != 0) {
    relay.write_some();
    return;
  }
  const bool out = relay.direction() == Relay::Direction::OutOfBox;
  relay.read_some(out ? output_left() : UINT64_MAX);
  if (out && plan_.watch.output_bytes && output_bytes() > *plan_.watch.output_bytes) {
    relay.take_back(output_bytes() - *plan_.watch.output_bytes);
    end_by(LimitKind::Output);
    return;
  }
  relay.write_some();
}

void Supervisor::check_limits() {
  const CgroupCounts counts = box_.cgroup.counts(Cgroup::Usage::Skip);
  if (counts.out_of_memory) return end_by(LimitKind::Memory);
  if (counts.pids_refused) return end_by(LimitKind::Pids);
}

void Supervisor::check_cpu() {
  if (!plan_.watch.cpu_time || Clock::now() < next_cpu_check_) return;
  const std::optional<std::uint64_t> counted = box_.cgroup.cpu_ns();
  if (!counted) {
    // A limit that can no longer be watched is not kept: the box ends.
    box_.kill();
    return fail_with(EndReason::Failed, kRefusedExit, "the box's CPU time cannot be read any more");
  }
  const auto used = nanoseconds(static_cast<std::int64_t>(*counted));
  if (used >= *plan_.watch.cpu_time) return end_by(LimitKind::Cpu);
  // All cores busy use what is left no sooner than this.
  const nanoseconds soonest = (*plan_.watch.cpu_time - used) / ::get_nprocs();
  next_cpu_check_ = Clock::now() + std::max(soonest, kShortestCpuCheck);
}

void Supervisor::end_by(LimitKind limit) {
  box_.kill();
  running_ = false;
  report_.reason = EndReason::Limit;
  report_.limit = limit;
  report_.exit_code = kLimitExit;
}

void Supervisor::fail_with(EndReason reason, int code, std::string problem) {
  running_ = false;
  report_.reason = reason;
  report_.exit_code = code;
  report_.problem = std::move(problem);
}

// Waits for init's end and reaps it. Its resource usage covers every process it has waited for.
bool Supervisor::await_init(int patience_ms) {
  pollfd wait{box_.init.get(), POLLIN, 0};
  if (::poll(&wait, 1, patience_ms) <= 0) return false;
  if (const auto reaped = reap_process(box_.init)) {
    const auto ns = [](const timeval& time) {
      return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
             static_cast<std::uint64_t>(time.tv_usec) * 1000U;
    };
    if (!report_.usage.cpu_ns) {
      report_.usage.cpu_ns = ns(reaped->usage.ru_utime) + ns(reaped->usage.ru_stime);
    }
  }
  return true;
}

void Supervisor::read_usage() {
  const CgroupCounts counts =
      box_.cgroup.counts(detail_ == Detail::Full ? Cgroup::Usage::Read : Cgroup::Usage::Skip);
  report_.usage.peak_memory_bytes = counts.peak_memory_bytes;
  report_.usage.cpu_ns = counts.cpu_ns;
  // A limit that was hit decides how the run is reported, also when the command got to its own end
  // before the news of it got here.
  const bool by_itself =
      report_.reason == EndReason::Exited || report_.reason == EndReason::Signaled;
  if (by_itself && counts.out_of_memory) end_by(LimitKind::Memory);
  if (by_itself && counts.pids_refused) end_by(LimitKind::Pids);
}

void Supervisor::finish() {
  report_.usage.wall = Clock::now() - started_;
  const bool cut = report_.reason == EndReason::Limit;
  for (Relay& relay : streams_.relays) {
    if (relay.direction() != Relay::Direction::OutOfBox) continue;
    relay.drain(cut && report_.limit == LimitKind::Output ? 0 : output_left());
    if (relay.lost_by() != 0 && report_.reason == EndReason::Exited) {
      fail_with(EndReason::Failed, kRefusedExit,
                fmt::format("output was lost: {}", errno_text(relay.lost_by())));
    }
  }
  if (!streams_.relays.empty()) report_.usage.output_bytes = output_bytes();
  read_usage();
  report_.times.insert(report_.times.begin(), box_.times.begin(), box_.times.end());
  // When the command was all there was, its cgroup is empty now, and init is about to end by
  // itself; otherwise the rest is being killed. It is waited for in any case: an init that is not
  // reaped, as in a container without one, keeps a keyring of its user's, and there are few of
  // those.
  (void)box_.cgroup.remove();
  box_.kill();
  if (!await_init(kTeardownPatienceMs)) return;
  (void)box_.cgroup.remove();  // a directory that stays is swept by the next launch
}

ExitReport Supervisor::run() {
  prepare_watch();
  while (running_) {
    Waits waits = collect();
    const int ready = ::poll(waits.fds.data(), waits.fds.size(), timeout_ms());
    if (ready < 0 && errno != EINTR) {
      box_.kill();
      fail_with(EndReason::Failed, kRefusedExit, fmt::format("poll: {}", errno_text(errno)));
      break;
    }
    if (ready > 0) dispatch(waits);
    if (ready == 0) check_limits();
    if (!running_) break;
    if (plan_.watch.wall && Clock::now() >= started_ + *plan_.watch.wall) {
      end_by(LimitKind::Wall);
      break;
    }
    check_cpu();
  }
  finish();
  return std::move(report_);
}

}  // namespace

std::string_view to_text(EndReason reason) {
  switch (reason) {
    case EndReason::Exited: return "exited";
    case EndReason::Signaled: return "signaled";
    case EndReason::Limit: return "limit";
    case EndReason::Refused: return "refused";
    case EndReason::Failed: return "failed";
  }
  return "unknown";
}

std::string_view to_text(LimitKind limit) {
  switch (limit) {
    case LimitKind::Wall: return "wall";
    case LimitKind::Memory: return "memory";
    case LimitKind::Pids: return "pids";
    case LimitKind::Cpu: return "cpu";
    case LimitKind::Output: return "output";
    case LimitKind::Disk: return "disk";
  }
  return "unknown";
}

Result<NetworkFiles> network_files(std::vector<UniqueFd> fds, const plan::NetworkPlan& plan) {
  if (fds.size() != (plan.resolves ? kNetworkFds : 1)) {
    return fail(Code::Os, "the box's init sent {} descriptors for its network", fds.size());
  }
  NetworkFiles files;
  files.listener = std::move(fds[0]);
  if (plan.resolves) {
    files.questions = std::move(fds[1]);
    files.connections = std::move(fds[2]);
  }
  return files;
}

ExitReport supervise(Box box, UniqueFd status, const plan::LaunchPlan& plan, Streams streams,
                     int signals, Detail detail, NetworkDelegate* network) {
  Supervisor supervisor(std::move(box), std::move(status), plan, std::move(streams), signals,
                        detail, network);
  return supervisor.run();
}

}  // namespace glovebox::launch
