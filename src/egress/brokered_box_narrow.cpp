// A box that may do less from now on.
#include "egress/brokered_box.h"
#include "egress/kernel/connection_cutter.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include <unistd.h>

namespace glovebox::egress {
namespace {

using Kind = ConnectVerdict::Kind;

// What one search does not find is looked for again soon, and then less often. Nothing that a
// program does by chance hides a socket from all of them.
constexpr int kMostRounds = 6;
constexpr int kRoundsInside =
    2;  // then everywhere: what was made for the box belongs to no other process
constexpr std::chrono::milliseconds kFirstPause{20};
constexpr int kPauseFactor = 4;  // times what the search took, at the least

// A place that was bound is all addresses of the host, or one.
bool is_at(const Endpoint& place, const Endpoint& local) {
  return place.port == local.port &&
         (place.address == local.address || range_of(place.address) == Range::Unspecified);
}

// A box of an ordinary user's is that user's, and so is what it has. Root is shown who has what
// (find_outside).
bool is_of_another_user(const Endings::Local& socket) {
  const uid_t own = ::geteuid();
  return own != 0 && socket.inode != 0 && socket.uid != own;
}

// Those that a process has open.
std::vector<WantedSocket> wanted_of(std::span<const Endings::Local> sockets) {
  std::vector<WantedSocket> wanted;
  for (const Endings::Local& socket : sockets) {
    if (socket.inode != 0) wanted.push_back({socket.inode, socket.name.cookie});
  }
  return wanted;
}

}  // namespace

// By the names that the address was looked up by as well: a rule that would grant it anew keeps it.
bool Box::is_granted(const Endpoint& to, const std::string& name) const {
  std::vector<std::string> names = names_of(to);
  if (!name.empty()) names.push_back(name);
  return decide_connect(network_.authority, to, names).kind == Kind::Outside;
}

Narrowed Box::narrow(const authority::AuthoritySet& to, Existing existing) {
  const authority::AuthoritySet before = network_.authority;
  network_.authority = before.attenuate(to);
  decided_.reset();
  connections_.set_budgets(network_.authority);
  if (names_) names_->on_narrowed();
  count_bytes();
  refuse_waiting();
  Narrowed narrowed{before.minus(network_.authority).grants, 0};
  if (existing == Existing::Keep) return narrowed;
  std::vector<std::uint64_t> lost;
  for (const auto& [cookie, connection] : connections_.open()) {
    if (!is_granted(connection.socket.peer, connection.name)) lost.push_back(cookie);
  }
  close_ports();
  narrowed.cut = cut_connections(lost);
  return narrowed;
}

void Box::refuse_waiting() {
  std::vector<std::uint64_t> lost;
  for (const auto& [id, waiting] : waiting_) {
    const Attempt& attempt = waiting.attempt;
    if (attempt.is_outside() && !is_granted(attempt.to(), attempt.name)) lost.push_back(id);
  }
  for (const std::uint64_t id : lost) {
    const auto node = waiting_.extract(id);
    const Waiting& waiting = node.mapped();
    services_.poller.unwatch(waiting.watch);
    services_.poller.cancel(waiting.deadline);
    services_.poller.cancel(waiting.signals);
    const Endpoint& where = waiting.attempt.to();
    deny(waiting.attempt,
         Denied{Denied::Act::Connect, where.to_text(), fmt::format("connect={}", where.to_text()),
                "its policy was narrowed meanwhile"},
         EACCES);
  }
}

// Who is not published any more may not listen again (on_listen), so what remains is to end what is
// open: the socket that listens and those that came of it.
void Box::close_ports() {
  std::erase_if(published_, [&](const auto& entry) { return !is_published(entry.second); });
  std::erase_if(ports_, [&](const Port& port) {
    if (is_published(port)) return false;
    closed_.push_back(port.outside);
    return true;
  });
  std::erase_if(closed_, [&](const Endpoint& place) {
    return std::ranges::find(ports_, place, &Port::outside) != ports_.end();
  });
}

bool Box::is_closed(const Endpoint& local) const {
  return std::ranges::any_of(closed_, [&](const Endpoint& each) { return is_at(each, local); }) &&
         std::ranges::find(ports_, local, &Port::outside) == ports_.end();
}

Result<std::vector<Endings::Local>> Box::sockets_at_closed() const {
  std::vector<Endings::Local> found;
  if (closed_.empty()) return found;
  if (services_.endings == nullptr) {
    return fail(Code::Unsupported, "this kernel does not tell who talks at a port");
  }
  const std::uint16_t port = closed_.front().port;
  const bool is_one = std::ranges::all_of(closed_, [&](const auto& e) { return e.port == port; });
  TRY(found, services_.endings->sockets_at(is_one ? port : 0));
  std::erase_if(found, [&](const Endings::Local& socket) {
    return foreign_.contains(socket.name.cookie) || is_of_another_user(socket) ||
           !is_closed(socket.name.local);
  });
  return found;
}

std::size_t Box::cut_connections(const std::vector<std::uint64_t>& cookies) {
  condemned_.insert(cookies.begin(), cookies.end());
  return carry_out_cuts();
}

std::size_t Box::carry_out_cuts() {
  if (must_end_) return 0;
  const auto start = Poller::Clock::now();
  services_.poller.cancel(cut_timer_);
  cut_timer_ = Poller::kNone;
  std::vector<WantedSocket> sockets;
  for (const std::uint64_t cookie : condemned_) {
    const auto found = connections_.open().find(cookie);
    if (found != connections_.open().end()) sockets.push_back({found->second.inode, cookie});
  }
  std::set<std::uint64_t> found;
  if (cut_rounds_ >= kRoundsInside) found = shut_down_anywhere(sockets);
  if (const auto at_closed = sockets_at_closed()) {
    std::ranges::copy(wanted_of(*at_closed), std::back_inserter(sockets));
  }
  found.merge(shut_down_inside(pid_namespace_, sockets));
  // Where the kernel does not tell, nothing more can be known than that it was shut down.
  const bool is_blind = services_.endings == nullptr;
  std::size_t ended = std::erase_if(condemned_, [&](std::uint64_t cookie) {
    return (is_blind && found.contains(cookie)) || connections_.is_over(cookie);
  });
  ended += end_closed();
  if (condemned_.empty() && closed_.empty()) {
    cut_rounds_ = 0;
  } else {
    cut_again_later(Poller::Clock::now() - start);
  }
  return ended;
}

// One that is not accepted yet may be about to be: that takes another round. It goes with the
// socket that listens, so it alone is no reason to end the box.
std::size_t Box::end_closed() {
  const auto left = sockets_at_closed();
  if (!left) return 0;
  foreign_.merge(find_outside(pid_namespace_, wanted_of(*left)));
  const bool is_last = cut_rounds_ + 1 >= kMostRounds;
  return std::erase_if(closed_, [&](const Endpoint& place) {
    return std::ranges::all_of(*left, [&](const Endings::Local& socket) {
      if (!is_at(place, socket.name.local) || foreign_.contains(socket.name.cookie)) return true;
      return socket.inode == 0 ? is_last : services_.endings->destroy(socket.name);
    });
  });
}

void Box::cut_again_later(Poller::Clock::duration took) {
  if (++cut_rounds_ >= kMostRounds) return demand_end();
  const Poller::Clock::duration pause =
      std::max<Poller::Clock::duration>(kFirstPause * (1 << cut_rounds_), kPauseFactor * took);
  cut_timer_ =
      services_.poller.call_at(Poller::Clock::now() + pause, [this] { (void)carry_out_cuts(); });
}

// It gets no answer to any call from here on.
void Box::demand_end() {
  if (calls_watch_ != Poller::kNone) services_.poller.unwatch(calls_watch_);
  calls_watch_ = Poller::kNone;
  must_end_ = true;
  const std::size_t count = condemned_.size() + closed_.size();
  sink_(MustEnd{fmt::format("{} that {} taken from the box could not be found in its processes",
                            count == 1 ? "a connection" : fmt::format("{} connections", count),
                            count == 1 ? "was" : "were")});
}

}  // namespace glovebox::egress
