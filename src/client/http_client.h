// The command line's side of a service: requests over a unix socket or TCP, one after the other.
//
// Everything that comes back is bounded. A service on another machine is trusted no further than
// what it sends is printed or written where the caller said.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace glovebox::app {

// Where a service listens: a socket's path, or a host and port.
struct ServiceAddress {
  std::string socket;
  std::string host;
  std::string port;
  std::string token;  // empty: none is sent
};

// GLOVEBOX_HOST as people write it: unix:///run/x.sock, /run/x.sock, http://127.0.0.1:44772.
Result<ServiceAddress> parse_service_address(std::string_view text);

struct Call {
  std::string_view method = "GET";
  std::string target{};  // path and query, escaped: escape_query()
  std::string body{};
  std::string_view type = "application/json";  // of the body
  std::string_view accept = "application/json";
  std::vector<std::pair<std::string, std::string>> headers{};  // besides these
};

struct Reply {
  unsigned status = 0;
  std::string type{};
  std::string body{};
  std::vector<std::pair<std::string, std::string>> headers{};

  // The header of that name, as it is written here; empty when there is none.
  std::string header(std::string_view name) const;
  bool ok() const { return status >= 200 && status < 300; }
};

// A body that is sent in parts: `text`, then the whole of `file` if there is one.
struct BodyPart {
  std::string text{};
  BorrowedFd file{-1};
  std::uint64_t size = 0;  // of the file
};

// Percent-encodes all but letters, digits and -._~/
std::string escape_query(std::string_view text);

// What a service says about a request that it refuses, as an error: its message, and a code that
// fits the status.
Error refusal_of(const Reply& reply);

class HttpClient {
 public:
  static constexpr std::size_t kMostBody = std::size_t{64} << 20;

  // Code::NotFound when no process listens there.
  static Result<HttpClient> connect(const ServiceAddress& address);

  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  // The whole reply, at most kMostBody. Replies that are no success are replies too.
  Result<Reply> call(const Call& call);
  // Hands the body of a success to `sink` as it comes; the reply then has none.
  using Sink = std::function<Result<void>(std::string_view)>;
  Result<Reply> stream(const Call& call, const Sink& sink);
  // Sends a body of parts.
  Result<Reply> send(const Call& call, const std::vector<BodyPart>& parts);

  // A run or terminal: messages both ways until the service closes. See terminal_client.h.
  struct Connection;
  Connection& connection() { return *connection_; }

 private:
  explicit HttpClient(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

}  // namespace glovebox::app
