#include "base/file.h"
#include "egress/brokered_box.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

namespace glovebox::egress {
namespace {

using Kind = ConnectVerdict::Kind;

constexpr std::chrono::milliseconds kSignalCheck{50};
// Never seen by programs: the kernel starts the call again, or makes it EINTR, as the signal's
// handler asks for.
constexpr int kRestart = 512;  // ERESTARTSYS

// EINTR: the box has made the socket block, and the wait was ended (interrupter.h). The connection
// goes on being made (connect(2)).
int try_connect(BorrowedFd socket, const RawAddress& to) {
  return ::connect(socket.get(), to.get(), to.length) == 0 ? 0 : errno;
}

void set_blocking(BorrowedFd socket, bool blocks) {
  int does_not = blocks ? 0 : 1;
  (void)::ioctl(socket.get(), FIONBIO, &does_not);  // cannot fail on a socket that is open
}

std::uint64_t signal_set(const std::string& status, std::string_view field) {
  const std::size_t at = status.find(field);
  return at == std::string::npos ? 0
                                 : std::strtoull(status.c_str() + at + field.size(), nullptr, 16);
}

// Whether a signal waits that would have ended the call, had the kernel carried it out.
bool has_signal(pid_t thread) {
  const auto status = read_file(fmt::format("/proc/{}/status", thread));
  if (!status) return false;
  const std::uint64_t pending = signal_set(*status, "\nSigPnd:") | signal_set(*status, "\nShdPnd:");
  return (pending & ~signal_set(*status, "\nSigBlk:") & ~signal_set(*status, "\nSigIgn:")) != 0;
}

std::string shown(const ConnectVerdict& verdict, const Endpoint& to) {
  return verdict.name.empty() ? to.to_text() : fmt::format("{} ({})", verdict.name, to.to_text());
}

Denied datagram_denied(const Endpoint& to) {
  return {Denied::Act::Send, to.to_text(), "",
          "no capability grants datagrams; names are looked up through 127.0.0.1"};
}

}  // namespace

ConnectVerdict Box::decide(const Endpoint& to, std::vector<std::string> names) {
  if (!decided_ || decided_->to != to || decided_->names != names) {
    ConnectVerdict verdict = decide_connect(network_.authority, to, names);
    decided_ = Decided{to, std::move(names), std::move(verdict)};
  }
  return decided_->verdict;
}

void Box::on_connect(Attempt attempt) {
  const std::uint64_t id = attempt.call.id;
  const bool handed_in = network_of(attempt.original) == services_.host_network;
  if (!attempt.address.endpoint) {
    // Made unconnected again. A socket of ours would then be free to go elsewhere.
    if (handed_in) return void(calls_->answer(id, 0, EOPNOTSUPP));
    RawAddress none;
    none.storage.ss_family = AF_UNSPEC;
    none.length = sizeof(sockaddr_in);
    return void(calls_->answer(id, 0, try_connect(attempt.original, none)));
  }
  if (!network_.reaches_out()) return begin(std::move(attempt));  // its network is empty
  if (attempt.kind.type != SOCK_STREAM) return on_datagram_connect(attempt);

  ConnectVerdict verdict = decide(attempt.to(), names_of(attempt.to()));
  if (handed_in) {
    const ConnectProgress progress = progress_of(attempt.original);
    if (progress.state == ConnectState::Failed) {
      return void(calls_->answer(id, 0, progress.error));
    }
    if (progress.state != ConnectState::Idle && verdict.kind == Kind::Outside) {
      return begin(std::move(attempt));  // the kernel says where it stands
    }
    if (progress.state != ConnectState::Idle) return void(calls_->answer(id, 0, EISCONN));
  }
  switch (verdict.kind) {
    case Kind::Outside: return connect_outside(std::move(attempt), std::move(verdict.name));
    case Kind::Inside:
      // A socket of ours is not the box's to connect to the host's loopback with.
      if (handed_in) return void(calls_->answer(id, 0, EADDRNOTAVAIL));
      return connect_inside(std::move(attempt));
    case Kind::Refused:
      return deny(
          attempt,
          Denied{Denied::Act::Connect, shown(verdict, attempt.to()), verdict.missing, verdict.why},
          EACCES);
  }
}

// Resolver libraries connect datagram sockets to find out which address they would use, and send
// nothing. That is no denial worth a word where a connection is granted.
void Box::on_datagram_connect(Attempt& attempt) {
  const std::uint64_t id = attempt.call.id;
  const std::vector<std::string> names = names_of(attempt.to());
  const ConnectVerdict verdict = decide_connect(network_.authority, attempt.to(), names);
  const bool host_socket = network_of(attempt.original) == services_.host_network;
  if (verdict.kind == Kind::Inside && !host_socket) {
    const RawAddress raw = raw_address(attempt.to(), attempt.kind.domain);
    return void(calls_->answer(id, 0, try_connect(attempt.original, raw)));
  }
  if (verdict.kind == Kind::Outside || !names.empty() || attempt.to().port == 0) {
    return void(calls_->answer(id, 0, ENETUNREACH));
  }
  deny(attempt, datagram_denied(attempt.to()), ENETUNREACH);
}

// Nothing rests on this answer but the event: a datagram that is let through with another address
// by then goes nowhere, because sockets of the box's own network lead nowhere, and those that were
// handed in are TCP's, which has no use for an address here.
void Box::on_send(const Attempt& attempt) {
  const std::uint64_t id = attempt.call.id;
  if (!attempt.address.endpoint) return void(calls_->let_through(id));
  const Range range = range_of(attempt.to().address);
  if (range == Range::Loopback || range == Range::Unspecified) {
    return void(calls_->let_through(id));
  }
  deny(attempt, datagram_denied(attempt.to()), ENETUNREACH);
}

void Box::connect_inside(Attempt attempt) { begin(std::move(attempt)); }

void Box::connect_outside(Attempt attempt, std::string name) {
  const std::uint64_t id = attempt.call.id;
  // Interfaces have other numbers outside.
  if (attempt.address.scope != 0) return void(calls_->answer(id, 0, EINVAL));
  if (const auto exhausted = connections_.spend(attempt.to())) {
    return deny(attempt, Denied{Denied::Act::Connect, attempt.to().to_text(), "", *exhausted},
                ECONNREFUSED);
  }
  auto made = make_like(attempt.original, attempt.kind.domain,
                        attempt.kind.domain == AF_INET ? std::move(spare_) : UniqueFd());
  if (!made) return void(calls_->answer(id, 0, made.error().os_errno));
  if (!is_guarded(services_.filters.hear_only(*made, attempt.to())))
    return void(calls_->answer(id, 0, EACCES));
  attempt.made = *std::move(made);
  attempt.name = std::move(name);
  begin(std::move(attempt));
}

// Connects without blocking, whatever the program's socket does; who blocks is waited for.
void Box::begin(Attempt attempt) {
  const RawAddress raw = raw_address(attempt.to(), attempt.kind.domain);
  if (!attempt.is_outside() && attempt.blocks) set_blocking(attempt.original, false);
  int error = try_connect(attempt.socket(), raw);
  // On loopback it is there by now; asked again, the kernel says so.
  if (error == EINPROGRESS && attempt.blocks) error = try_connect(attempt.socket(), raw);
  if (error == EINTR) error = attempt.blocks ? EALREADY : EINPROGRESS;
  if (error == EALREADY && attempt.blocks) return wait_for(std::move(attempt));
  finish(attempt, error);
}

bool Box::refuse_to_wait(const Attempt& attempt) {
  if (may_wait(waiting_.size(), services_.waiting, services_.most_waiting)) return false;
  deny(attempt,
       Denied{Denied::Act::Connect, "any more hosts", "",
              fmt::format("{} of its connects wait already", waiting_.size())},
       EAGAIN);
  return true;
}

void Box::wait_for(Attempt attempt) {
  if (refuse_to_wait(attempt)) {
    if (!attempt.is_outside()) set_blocking(attempt.original, true);
    return;
  }
  const std::uint64_t id = attempt.call.id;
  Waiting waiting;
  waiting.attempt = std::move(attempt);
  waiting.place = take_place();
  auto watch =
      services_.poller.watch(waiting.attempt.socket(), EPOLLOUT,
                             [this, id](std::uint32_t) { at_its_cost([&] { on_progress(id); }); });
  if (!watch) return finish(waiting.attempt, ENOMEM);
  waiting.watch = *watch;
  const auto now = Poller::Clock::now();
  if (const auto patience = send_timeout(waiting.attempt.original)) {
    waiting.deadline = services_.poller.call_at(now + *patience, [this, id] {
      auto node = waiting_.extract(id);
      if (node.empty()) return;
      services_.poller.unwatch(node.mapped().watch);
      services_.poller.cancel(node.mapped().signals);
      at_its_cost([&] { finish(node.mapped().attempt, EINPROGRESS); });
    });
  }
  waiting.signals =
      services_.poller.call_at(now + kSignalCheck, [this, id] { look_for_signals(id); });
  waiting_.emplace(id, std::move(waiting));
}

// Something has come of it, unless the box has ended it meanwhile (connect to AF_UNSPEC,
// shutdown(2)): then this begins another one, whose end is not waited for.
void Box::on_progress(std::uint64_t id) {
  auto node = waiting_.extract(id);
  if (node.empty()) return;
  Waiting& waiting = node.mapped();
  const RawAddress raw = raw_address(waiting.attempt.to(), waiting.attempt.kind.domain);
  set_blocking(waiting.attempt.socket(), false);  // the box may have changed it
  int error = try_connect(waiting.attempt.socket(), raw);
  if (error == EINTR || error == EINPROGRESS) error = ECONNABORTED;
  if (error == EALREADY) {
    waiting_.insert(std::move(node));
    return;
  }
  services_.poller.unwatch(waiting.watch);
  services_.poller.cancel(waiting.deadline);
  services_.poller.cancel(waiting.signals);
  finish(waiting.attempt, error);
}

void Box::look_for_signals(std::uint64_t id) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  const pid_t thread = found->second.attempt.call.thread;
  const bool gone = !calls_->still_waits(id);
  if (!gone && !has_signal(thread)) {
    found->second.signals = services_.poller.call_at(Poller::Clock::now() + kSignalCheck,
                                                     [this, id] { look_for_signals(id); });
    return;
  }
  auto node = waiting_.extract(found);
  services_.poller.unwatch(node.mapped().watch);
  services_.poller.cancel(node.mapped().deadline);
  if (!gone) at_its_cost([&] { finish(node.mapped().attempt, kRestart); });
}

void Box::finish(Attempt& attempt, int error) {
  if (attempt.blocks) set_blocking(attempt.socket(), true);
  const bool lives = error == 0 || error == EINPROGRESS || error == kRestart;
  const bool wanted = attempt.is_outside() && lives;
  const HandedIn handed = wanted ? hand_in(attempt) : HandedIn::Nowhere;
  if (wanted && handed != HandedIn::Everywhere) error = EMFILE;
  const bool handed_in = handed != HandedIn::Nowhere;
  calls_->answer(attempt.call.id, 0, error);
  if (handed_in) note(attempt);
  // After the answer, while no call waits: the next connect finds a socket ready.
  if (handed_in && !spare_) spare_ = make_plain(AF_INET);
  if (handed_in) services_.filters.remember(attempt.to());
}

bool Box::install(const Attempt& attempt, const Descriptor& place) {
  return calls_->install(attempt.call.id, attempt.made, place.number,
                         place.closes_on_exec ? OnExec::Close : OnExec::Keep);
}

// Programs that wait for many things at once use sockets that do not block; theirs are looked for
// everywhere. For one that blocks the search would take as long as all the rest: it is made only
// when a copy of the old socket is left after its number got the new one.
Box::HandedIn Box::hand_in(Attempt& attempt) {
  const pid_t thread = attempt.call.thread;
  struct stat old{};
  (void)::fstat(attempt.original.get(), &old);  // cannot fail on a socket that is open
  References references;
  if (!attempt.blocks) references = find_references(thread, old.st_ino);
  if (references.too_many) return HandedIn::Nowhere;
  if (!install(attempt, {attempt.number, closes_on_exec(thread, attempt.number)})) {
    return HandedIn::Nowhere;
  }
  if (attempt.blocks && !services_.last_reference.close(std::move(attempt.original))) {
    references = find_references(thread, old.st_ino);
  }
  bool all = !references.too_many;
  for (const Descriptor& place : references.numbers) {
    if (all && place.number != attempt.number) all = install(attempt, place);
  }
  if (!references.entries.empty()) {
    // One that does not take it has been closed meanwhile.
    (void)watch_instead(*attempt.process, references.entries, attempt.made);
  }
  return all ? HandedIn::Everywhere : HandedIn::Partly;
}

void Box::note(const Attempt& attempt) {
  sockaddr_storage local{};
  socklen_t length = sizeof(local);
  struct stat info{};
  if (::getsockname(attempt.made.get(), reinterpret_cast<sockaddr*>(&local), &length) != 0 ||
      ::fstat(attempt.made.get(), &info) != 0) {
    return;
  }
  const auto here = endpoint_of(local);
  if (!here) return;
  OpenConnection connection{{*here, attempt.to(), attempt.kind.domain, cookie_of(attempt.made)},
                            info.st_ino,
                            attempt.name,
                            std::chrono::steady_clock::now(),
                            {}};
  if (services_.endings != nullptr) services_.owners[connection.socket.cookie] = id_;
  connections_.add(std::move(connection));
  count_bytes();
}

}  // namespace glovebox::egress
