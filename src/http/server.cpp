#include "http/server.h"

#include "http/connection.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <map>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace glovebox::serve {
namespace {

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds kSweep{250};
// So many at once, then everybody else gets a turn.
constexpr int kMostAcceptedAtOnce = 32;
constexpr std::chrono::milliseconds kPause{100};
constexpr std::size_t kNetworkBytes = 8;  // of an IPv6 address

Peer peer_of(int fd, SocketFamily family, const sockaddr_storage& address) {
  Peer peer;
  if (family == SocketFamily::Unix) {
    ucred who{};
    socklen_t size = sizeof(who);
    peer.address = peer.host = "unix";
    peer.is_local = true;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0) peer.uid = who.uid;
    return peer;
  }
  if (address.ss_family == AF_INET) {
    const auto* name = reinterpret_cast<const sockaddr_in*>(&address);
    peer.host = asio::ip::address_v4(ntohl(name->sin_addr.s_addr)).to_string();
    peer.address = fmt::format("{}:{}", peer.host, ntohs(name->sin_port));
  } else {
    const auto* name = reinterpret_cast<const sockaddr_in6*>(&address);
    asio::ip::address_v6::bytes_type bytes;
    std::copy_n(name->sin6_addr.s6_addr, bytes.size(), bytes.begin());
    const asio::ip::address_v6 host(bytes);
    peer.address = fmt::format("[{}]:{}", host.to_string(), ntohs(name->sin6_port));
    // An IPv4 address in IPv6 clothes is one host; all of them together are one network.
    if (!host.is_v4_mapped()) std::fill(bytes.begin() + kNetworkBytes, bytes.end(), 0);
    peer.host = asio::ip::address_v6(bytes).to_string();
  }
  return peer;
}

}  // namespace

Server::Server(asio::io_context& io, const HttpLimits& limits, Handler handler, BugSink bug_sink)
    : io_(io),
      limits_(limits),
      handler_(std::move(handler)),
      bug_sink_(std::move(bug_sink)),
      sweep_timer_(io) {
  asio::co_spawn(io_, sweep(), asio::detached);
}

Server::~Server() = default;

void Server::listen(std::shared_ptr<Listener> listener) {
  listeners_.push_back(listener);
  asio::co_spawn(io_, accept_from(std::move(listener)), asio::detached);
}

asio::awaitable<void> Server::accept_from(std::shared_ptr<Listener> listener) {
  asio::steady_timer pause(io_);
  while (!draining_) {
    const auto [problem] =
        co_await listener->descriptor.async_wait(asio::posix::stream_descriptor::wait_read, kTuple);
    if (draining_) co_return;
    if (!problem && accept_waiting(*listener) == Accepted::Fine) continue;
    // Out of descriptors or memory: the connection waits until others have ended, and one that can
    // be spared does.
    Connection* expendable = find_expendable(Among::All);
    if (expendable != nullptr) evict(*expendable);
    pause.expires_after(kPause);
    (void)co_await pause.async_wait(kTuple);
  }
}

Server::Accepted Server::accept_waiting(Listener& listener) {
  for (int i = 0; i < kMostAcceptedAtOnce; ++i) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    UniqueFd fd(::accept4(listener.descriptor.native_handle(),
                          reinterpret_cast<sockaddr*>(&address), &size,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      return full ? Accepted::NoRoom : Accepted::Fine;
    }
    const int on = 1;
    const bool tcp = listener.family == SocketFamily::Tcp;
    if (tcp) (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    Peer peer = peer_of(fd.get(), listener.family, address);
    const asio::generic::stream_protocol protocol(tcp ? address.ss_family : AF_UNIX, 0);
    Stream::Socket socket(io_);
    boost::system::error_code problem;
    socket.assign(protocol, fd.get(), problem);
    if (problem) return Accepted::NoRoom;
    (void)fd.release();
    auto connection =
        std::make_shared<Connection>(*this, std::move(socket), std::move(peer), listener.tls);
    asio::co_spawn(io_, serve(std::move(connection)), asio::detached);
  }
  return Accepted::Fine;
}

Connection* Server::oldest_unknown(std::string_view host) const {
  Connection* oldest = nullptr;
  for (Connection* one : connections_) {
    if (one->is_evicted() || one->is_known() || one->peer().host != host) continue;
    if (oldest == nullptr || one->since() < oldest->since()) oldest = one;
  }
  return oldest;
}

Connection* Server::find_expendable(Among which) const {
  std::map<std::string_view, std::size_t> unknown;
  Connection* idle = nullptr;
  for (Connection* one : connections_) {
    if (one->is_evicted() || (which == Among::Remote && one->peer().is_local)) continue;
    if (!one->is_known()) {
      ++unknown[one->peer().host];
    } else if (one->is_idle() && (idle == nullptr || one->since() < idle->since())) {
      idle = one;
    }
  }
  if (unknown.empty()) return idle;
  const auto count = [](const auto& one) { return one.second; };
  return oldest_unknown(std::ranges::max_element(unknown, {}, count)->first);
}

void Server::evict(Connection& connection) {
  ++counts_.evicted;
  connection.evict();
}

Server::Room Server::make_room(const Peer& peer) {
  // Nothing to count while there are few.
  const std::size_t remote_room = for_remote(limits_, limits_.connections);
  if (connections_.size() < std::min(limits_.unknown_per_peer, remote_room)) return Room::Made;
  std::size_t all = 0;
  std::size_t remote = 0;
  std::size_t unknown = 0;  // of this address
  for (const Connection* one : connections_) {
    if (one->is_evicted()) continue;
    ++all;
    if (!one->peer().is_local) ++remote;
    if (!one->is_known() && one->peer().host == peer.host) ++unknown;
  }
  if (!peer.is_local && unknown >= limits_.unknown_per_peer) {
    evict(*oldest_unknown(peer.host));
    --all;
    --remote;
  }
  const bool is_remote_full = !peer.is_local && remote >= remote_room;
  if (!is_remote_full && all < limits_.connections) return Room::Made;
  // What is kept for local ones is theirs; what they have beyond it is not.
  Connection* expendable = find_expendable(is_remote_full ? Among::Remote : Among::All);
  if (expendable == nullptr) return Room::None;
  evict(*expendable);
  return Room::Made;
}

bool Server::has_room_for_request(const Peer& peer) const {
  const std::size_t most = peer.is_local ? limits_.requests : for_remote(limits_, limits_.requests);
  return counts_.open_requests < most;
}

asio::awaitable<void> Server::serve(std::shared_ptr<Connection> connection) {
  ++counts_.connections;
  if (make_room(connection->peer()) == Room::None) {
    ++counts_.refused;
    co_await connection->turn_away();
    co_return;
  }
  connections_.insert(connection.get());
  try {
    co_await connection->run();
  } catch (const std::exception& problem) {
    bug_sink_(fmt::format("a connection ended: {}", problem.what()));
  } catch (const Bug& problem) {
    bug_sink_(fmt::format("a connection ended: {}", problem.message));
  }
  connections_.erase(connection.get());
}

asio::awaitable<void> Server::sweep() {
  for (;;) {
    sweep_timer_.expires_after(kSweep);
    const auto [problem] = co_await sweep_timer_.async_wait(kTuple);
    if (problem && draining_) co_return;
    const auto now = Connection::Clock::now();
    for (Connection* connection : connections_) connection->check_deadline(now);
  }
}

asio::awaitable<void> Server::drain(std::chrono::milliseconds patience) {
  draining_ = true;
  for (const auto& listener : listeners_) listener->descriptor.close();
  listeners_.clear();
  const auto end = Connection::Clock::now() + patience;
  asio::steady_timer timer(io_);
  while (!connections_.empty() && Connection::Clock::now() < end) {
    for (Connection* connection : connections_) connection->end_if_idle();
    timer.expires_after(std::chrono::milliseconds(20));
    co_await timer.async_wait(kTuple);
  }
  for (Connection* connection : connections_) connection->cut();
  for (int i = 0; i < 50 && !connections_.empty(); ++i) {
    timer.expires_after(std::chrono::milliseconds(20));
    co_await timer.async_wait(kTuple);
  }
  sweep_timer_.cancel();
}

HttpCounts Server::counts() const {
  HttpCounts counts = counts_;
  counts.open_connections = connections_.size();
  return counts;
}

}  // namespace glovebox::serve
