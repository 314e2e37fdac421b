#include "egress/brokered_box.h"

#include "egress/call_backoff.h"
#include "egress/kernel/connection_cutter.h"
#include "egress/kernel/interrupter.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <span>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

namespace glovebox::egress {
namespace {

constexpr std::chrono::milliseconds kByteCheck{100};

// A box that makes the broker wait pays for it.
static_assert(Interrupter::kPeriod > kLongWait);

// Of this thread, on a processor.
std::chrono::nanoseconds used_time() {
  timespec now{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);  // cannot fail: every kernel has it
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// The call as the sendto(2) that says the same: sendmsg(2) and sendmmsg(2) have their address in
// memory. Of many messages the first counts: the kernel fails the call for none but that, and who
// has more to send calls again. Nothing: it has no address, or none that can be read.
std::optional<WaitingCall> as_sendto(WaitingCall call) {
  struct {
    std::uint64_t name;
    std::int32_t length;
    std::int32_t padding;
  } head{};  // as a msghdr begins
  static_assert(sizeof(head) == offsetof(msghdr, msg_iov));
  const auto bytes = std::as_writable_bytes(std::span(&head, 1));
  if (read_memory(call.thread, call.arguments[1], bytes) != sizeof(head)) return std::nullopt;
  if (head.name == 0 || head.length <= 0) return std::nullopt;
  call.number = SYS_sendto;
  call.arguments[4] = head.name;
  call.arguments[5] =
      std::min<std::uint64_t>(static_cast<std::uint64_t>(head.length), sizeof(sockaddr_storage));
  return call;
}

bool is_message(const WaitingCall& call) {
  return call.number == SYS_sendmsg || call.number == SYS_sendmmsg;
}

}  // namespace

Box::Box(Services& services, BoxId id, plan::NetworkPlan network, EventSink sink)
    : services_(services),
      id_(id),
      network_(std::move(network)),
      sink_(std::move(sink)),
      connections_(services.endings, sink_) {
  connections_.set_budgets(network_.authority);
  if (network_.guards_sockets()) guard_.emplace(network_, services.kept);
}

Box::~Box() {
  services_.poller.unwatch(calls_watch_);
  services_.poller.cancel(byte_timer_);
  services_.poller.cancel(cut_timer_);
  services_.poller.cancel(rest_timer_);
  for (auto& [id, waiting] : waiting_) {
    services_.poller.unwatch(waiting.watch);
    services_.poller.cancel(waiting.deadline);
    services_.poller.cancel(waiting.signals);
  }
  for (const auto& [cookie, connection] : connections_.open()) services_.owners.erase(cookie);
  connections_.close_all();
}

Result<void> Box::start(launch::NetworkFiles files) {
  if (files.questions) {
    names_ = std::make_unique<NameServer>(services_.poller, services_.upstream, network_.authority,
                                          sink_);
    TRY_VOID(names_->start(std::move(files.questions), std::move(files.connections)));
  }
  TRY(Notifications calls, Notifications::open(std::move(files.listener)));
  calls_ = std::make_unique<Notifications>(std::move(calls));
  TRY(calls_watch_, services_.poller.watch(calls_->fd(), EPOLLIN,
                                           [this](std::uint32_t events) { on_listener(events); }));
  return {};
}

// One call a round: a box that asks without pause waits its turn like every other.
void Box::on_listener(std::uint32_t events) {
  if ((events & EPOLLIN) != 0) {
    at_its_cost([this] {
      if (auto call = calls_->receive()) take_call(*std::move(call));
    });
    return;
  }
  // No process is left that could call.
  services_.poller.unwatch(calls_watch_);
  calls_watch_ = Poller::kNone;
}

void Box::at_its_cost(const std::function<void()>& work) {
  const auto before = used_time();
  const auto start = Poller::Clock::now();
  work();
  const auto pause = rest_after(Poller::Clock::now() - start, used_time() - before);
  if (pause.count() > 0) rest(pause);
}

// What it has to rest already is not forgiven.
void Box::rest(std::chrono::nanoseconds time) {
  if (!services_.poller.change(calls_watch_, 0)) return;  // it is not watched any more
  rests_until_ = std::max(rests_until_, Poller::Clock::now()) + time;
  services_.poller.cancel(rest_timer_);
  rest_timer_ = services_.poller.call_at(rests_until_, [this] {
    (void)services_.poller.change(calls_watch_, EPOLLIN);  // as above
  });
}

// What was read is of this box only if the thread it was read of still waits.
void Box::learn(const WaitingCall& call) {
  std::string found = pid_namespace_of(call.thread);
  const auto user = user_of(call.thread);
  if (guard_) guard_->learn(open_root_of(call.thread));
  if (!calls_->still_waits(call.id)) return;
  pid_namespace_ = std::move(found);
  user_ = user;
}

void Box::take_call(WaitingCall call) {
  if (call.number == SYS_socket || call.number == SYS_socketpair) {
    return refuse_datagram_socket(call);
  }
  if (is_message(call)) {
    const auto with_address = as_sendto(call);
    if (!with_address) return void(calls_->let_through(call.id));
    call = *with_address;
  }
  auto attempt = read_call(call);
  if (!attempt) return;
  if (pid_namespace_.empty()) learn(call);
  if (call.number == SYS_listen) return on_listen(*attempt);
  if (call.number == SYS_connect && attempt->kind.domain == AF_UNIX) {
    return on_unix_connect(*std::move(attempt));
  }
  if (call.number == SYS_connect) return on_connect(*std::move(attempt));
  if (call.number == SYS_bind) return on_bind(*std::move(attempt));
  if (call.number == SYS_sendto) return on_send(*attempt);
  calls_->answer(call.id, 0, ENOSYS);
}

// Programs connect many times from one thread. A pidfd of a thread that lives is the thread's of
// that number: no other can have it meanwhile.
UniqueFd Box::fetch_original(Attempt& attempt) {
  if (last_process_ && last_caller_ == attempt.call.thread) {
    attempt.process = last_process_;
    UniqueFd fetched = fetch_descriptor(*attempt.process, attempt.number);
    if (fetched || errno != ESRCH) return fetched;
  }
  UniqueFd process = open_process(attempt.call.thread);
  if (!process) return {};
  attempt.process = std::make_shared<const UniqueFd>(std::move(process));
  last_process_ = attempt.process;
  last_caller_ = attempt.call.thread;
  return fetch_descriptor(*attempt.process, attempt.number);
}

std::optional<Attempt> Box::read_call(const WaitingCall& call) {
  const auto fail_with = [&](int error) {
    calls_->answer(call.id, 0, error);
    return std::nullopt;
  };
  Attempt attempt;
  attempt.call = call;
  attempt.number = static_cast<int>(call.arguments[0]);
  attempt.original = fetch_original(attempt);
  if (!attempt.original) return fail_with(errno == EBADF ? EBADF : EACCES);
  const auto kind = kind_of(attempt.original);
  if (!kind) return fail_with(ENOTSOCK);
  attempt.kind = *kind;
  attempt.blocks = (::fcntl(attempt.original.get(), F_GETFL) & O_NONBLOCK) == 0;
  if (call.number == SYS_listen) {
    return calls_->still_waits(call.id) ? std::optional(std::move(attempt)) : std::nullopt;
  }
  // A name that is bound does nothing by itself, and the mounts say where it can be made and what a
  // datagram reaches. A stream has no use for an address that is sent to.
  const bool through =
      kind->domain == AF_UNIX
          ? network_.unix_calls == plan::UnixCalls::LetThrough || call.number != SYS_connect
          : kind->type == SOCK_STREAM && call.number == SYS_sendto;
  if (through) {
    calls_->let_through(call.id);
    return std::nullopt;
  }
  const int error = read_call_address(attempt);
  if (error != 0) return fail_with(error);
  // What was read and fetched belongs to this call only if it still waits.
  if (!calls_->still_waits(call.id)) return std::nullopt;
  return attempt;
}

int Box::read_call_address(Attempt& attempt) {
  const WaitingCall& call = attempt.call;
  const std::size_t at = call.number == SYS_sendto ? 4 : 1;
  const std::uint64_t pointer = call.arguments.at(at);
  const auto length = static_cast<int>(call.arguments.at(at + 1));
  std::array<std::byte, sizeof(sockaddr_storage)> bytes{};
  if (length < 0 || static_cast<std::size_t>(length) > bytes.size()) return EINVAL;
  const std::span<std::byte> wanted(bytes.data(), static_cast<std::size_t>(length));
  if (length > 0 && read_memory(call.thread, pointer, wanted) != length) return EFAULT;
  if (attempt.kind.domain == AF_UNIX) {
    attempt.unix_address.assign(wanted.begin(), wanted.end());
    return 0;
  }
  const AddressOrError read = read_address(wanted, attempt.kind.domain);
  attempt.address = read.address;
  return read.error;
}

void Box::deny(const Attempt& attempt, Denied denied, int error) {
  calls_->answer(attempt.call.id, 0, error);
  sink_(std::move(denied));
}

std::vector<std::string> Box::names_of(const Endpoint& to) const {
  if (!names_) return {};
  return names_->pins().names_of(to.address, Pins::Clock::now());
}

void Box::count_bytes() {
  if (!connections_.counts_bytes() || byte_timer_ != Poller::kNone) return;
  if (connections_.open().empty()) return;
  byte_timer_ =
      services_.poller.call_at(Poller::Clock::now() + kByteCheck, [this] { check_bytes(); });
}

void Box::check_bytes() {
  byte_timer_ = Poller::kNone;
  if (connections_.look_at_all()) {
    std::vector<std::uint64_t> left;
    for (const auto& [cookie, connection] : connections_.open()) {
      if (!condemned_.contains(cookie)) left.push_back(cookie);
    }
    if (!left.empty()) {
      sink_(Denied{Denied::Act::Send, "its connections", "",
                   "more was sent than its budget has; they were cut"});
    }
    cut_connections(left);
  }
  count_bytes();
}

}  // namespace glovebox::egress
