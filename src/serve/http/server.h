// The HTTP server: connections, their limits, and a graceful end.
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
#include "serve/http/exchange.h"
#include "serve/http/listener.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_set>
#include <vector>

namespace glovebox::serve {

// What a client may cost. Every bound answers with a status and a JSON body where there still is
// somebody to answer.
struct HttpLimits {
  std::size_t header_bytes = 16 << 10;       // 431
  std::size_t connections = 1'024;           // 429, and closed
  std::size_t requests = 512;                // at the same time; 429
  std::chrono::milliseconds idle{75'000};    // between two requests: closed
  std::chrono::milliseconds header{10'000};  // from the first byte to the end of the head: 408
  // For each kBodyStep bytes of a body: 408. A client that sends a byte now and then gains nothing.
  std::chrono::milliseconds body{30'000};
  std::chrono::milliseconds write{60'000};  // for one piece of an answer to be taken: closed
};
inline constexpr std::size_t kBodyStep = 16 << 10;

// Counted for /metrics.
struct HttpCounts {
  std::uint64_t connections = 0;
  std::uint64_t requests = 0;
  std::uint64_t refused = 0;  // by a limit
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
  void accept_waiting(Listener& listener);
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
