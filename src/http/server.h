// The HTTP server: connections, their limits, and a graceful end.
//
// A connection is unknown until one of its requests was made by a caller that the handler knows
// (Exchange::accept_caller). Unknown ones cost their peer nothing, so they are never let to keep
// others out: they have one deadline for their first request, each peer address has so many of
// them, and a newcomer takes the place of one of them when there is no room (Server::make_room).
// Some room is for the local (unix) socket alone.
//
//   Server server(io, limits, handler);
//   server.listen(std::move(listener));   // for each address
//   ...
//   co_await server.drain(20s);
//
// Everything runs on the thread of `io`. Deadlines are kept by one sweep over all connections four
// times a second, so a request that is answered in time never touches a timer.
#pragma once

#include "base/result.h"
#include "http/exchange.h"
#include "http/listener.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace glovebox::serve {

// What a client may cost. Every bound answers with a status and a JSON body where the client
// is still there.
struct HttpLimits {
  std::size_t header_bytes = 16 << 10;       // 431
  std::size_t connections = 1'024;           // 429, and closed, when none can be ended instead
  std::size_t requests = 512;                // at the same time; 429
  std::size_t kept_percent = 10;             // of both, for unix sockets alone
  std::size_t unknown_per_peer = 256;        // unknown connections of one address: the oldest ends
  std::chrono::milliseconds idle{75'000};    // between two requests: closed
  std::chrono::milliseconds header{10'000};  // from the first byte to the end of the head: 408
  // For each kBodyStep bytes of a body: 408. A client that sends a byte now and then gains nothing.
  std::chrono::milliseconds body{30'000};
  std::chrono::milliseconds write{60'000};  // for one piece of an answer to be taken: closed
};
// What of a limit is there for callers that come over TCP. Never nothing.
inline std::size_t for_remote(const HttpLimits& limits, std::size_t most) {
  return std::max<std::size_t>(most - most * limits.kept_percent / 100, 1);
}
inline constexpr std::size_t kBodyStep = 16 << 10;

// Counted for /metrics.
struct HttpCounts {
  std::uint64_t connections = 0;
  std::uint64_t requests = 0;
  std::uint64_t refused = 0;  // by a limit
  std::uint64_t evicted = 0;  // connections that were ended to make room
  std::size_t open_connections = 0;
  std::size_t open_requests = 0;
};

class Connection;

class Server {
 public:
  // Answers one request. Returns a Response, or already_sent() after sending it through the
  // exchange. May throw: that is a bug, and a 500.
  using Handler = std::function<asio::awaitable<Response>(Exchange&)>;
  // Told about every bug, once.
  using BugSink = std::function<void(const std::string&)>;

  Server(asio::io_context& io, const HttpLimits& limits, Handler handler, BugSink bug_sink);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Accepts connections until drain().
  void listen(std::shared_ptr<Listener> listener);

  // Accepts nothing more, ends idle connections at once and the others after their request; what is
  // still there after `patience` is cut off.
  asio::awaitable<void> drain(std::chrono::milliseconds patience);

  const HttpLimits& limits() const { return limits_; }
  HttpCounts counts() const;
  bool is_draining() const { return draining_; }

 private:
  friend class Connection;

  asio::awaitable<void> accept_from(std::shared_ptr<Listener> listener);
  enum class Accepted : std::uint8_t { Fine, NoRoom };
  Accepted accept_waiting(Listener& listener);
  // Whether one more connection of this peer may be served. Ends what is in its way: of its own
  // address when that has too many that are unknown, and any when all room is taken.
  enum class Room : std::uint8_t { Made, None };
  Room make_room(const Peer& peer);
  // What may be ended for another: the oldest unknown connection of the address that has the most
  // of them, else the known one that has been idle the longest. nullptr: each is in use.
  enum class Among : std::uint8_t { All, Remote };
  Connection* find_expendable(Among which) const;
  Connection* oldest_unknown(std::string_view host) const;
  void evict(Connection& connection);
  // Whether one more request may be handled.
  bool has_room_for_request(const Peer& peer) const;
  asio::awaitable<void> sweep();
  asio::awaitable<void> serve(std::shared_ptr<Connection> connection);

  asio::io_context& io_;
  HttpLimits limits_;
  Handler handler_;
  BugSink bug_sink_;
  HttpCounts counts_;
  std::vector<std::shared_ptr<Listener>> listeners_;
  std::unordered_set<Connection*> connections_;
  asio::steady_timer sweep_timer_;
  bool draining_ = false;
};

}  // namespace glovebox::serve
