#include "serve/http/server.h"

#include "serve/http/connection.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cerrno>

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

Peer peer_of(int fd, SocketFamily family, const sockaddr_storage& address) {
  Peer peer;
  if (family == SocketFamily::Unix) {
    ucred who{};
    socklen_t size = sizeof(who);
    peer.address = "unix";
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0) peer.uid = who.uid;
    return peer;
  }
  if (address.ss_family == AF_INET) {
    const auto* name = reinterpret_cast<const sockaddr_in*>(&address);
    peer.address =
        fmt::format("{}:{}", asio::ip::address_v4(ntohl(name->sin_addr.s_addr)).to_string(),
                    ntohs(name->sin_port));
  } else {
    const auto* name = reinterpret_cast<const sockaddr_in6*>(&address);
    asio::ip::address_v6::bytes_type bytes;
    std::copy_n(name->sin6_addr.s6_addr, bytes.size(), bytes.begin());
    peer.address =
        fmt::format("[{}]:{}", asio::ip::address_v6(bytes).to_string(), ntohs(name->sin6_port));
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
    // Out of descriptors or memory: the connection waits until others have ended.
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

asio::awaitable<void> Server::serve(std::shared_ptr<Connection> connection) {
  ++counts_.connections;
  if (connections_.size() >= limits_.connections) {
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
