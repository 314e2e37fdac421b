// A box that may do less from now on.
#include "egress/box.h"
#include "egress/shut_down.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace glovebox::egress {
namespace {

using Kind = ConnectVerdict::Kind;

// What a box hides from one search is looked for again soon, and then less often.
constexpr std::chrono::milliseconds kFirstPause{50};
constexpr std::chrono::milliseconds kLongestPause{3200};

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
  narrowed.cut = cut_listeners();
  narrowed.cut += cut_connections(lost);
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
std::size_t Box::cut_listeners() {
  return std::erase_if(published_, [&](const auto& entry) {
    const Listener& listener = entry.second;
    if (is_published(listener)) return false;
    closed_.push_back(listener);
    return true;
  });
}

std::size_t Box::cut_connections(const std::vector<std::uint64_t>& cookies) {
  condemned_.insert(cookies.begin(), cookies.end());
  cut_pause_ = kFirstPause;
  return carry_out_cuts();
}

std::size_t Box::carry_out_cuts() {
  services_.poller.cancel(cut_timer_);
  cut_timer_ = Poller::kNone;
  std::vector<ino_t> sockets;
  for (const std::uint64_t cookie : condemned_) {
    const auto found = connections_.open().find(cookie);
    if (found != connections_.open().end()) sockets.push_back(found->second.inode);
  }
  for (const Listener& listener : closed_) {
    sockets.push_back(listener.inode);
    std::ranges::copy(sockets_in_use_at(listener.outside.port), std::back_inserter(sockets));
  }
  (void)shut_down_inside(pid_namespace_, sockets);  // what came of it is asked below
  const std::size_t ended =
      std::erase_if(condemned_, [&](std::uint64_t cookie) { return connections_.is_over(cookie); });
  std::erase_if(closed_, [](const Listener& listener) {
    return sockets_in_use_at(listener.outside.port).empty();
  });
  if (condemned_.empty() && closed_.empty()) return ended;
  cut_timer_ = services_.poller.call_at(Poller::Clock::now() + cut_pause_,
                                        [this] { (void)carry_out_cuts(); });
  cut_pause_ = std::min<Poller::Clock::duration>(cut_pause_ * 2, kLongestPause);
  return ended;
}

}  // namespace glovebox::egress
