// One request and its answer, as a handler sees it.
//
// A handler either returns a whole Response (the usual case), or sends the answer itself: begin(),
// send() as often as it likes, finish(). Every call waits until the bytes are with the kernel, so a
// slow reader slows the handler down and nothing piles up here.
//
// Errors of these calls mean that the client is gone or broke the protocol: there is no client left
// to tell, and the handler ends.
#pragma once

#include "base/result.h"
#include "http/message.h"

#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace glovebox::serve {

namespace asio = boost::asio;

// A message of a WebSocket.
struct SocketMessage {
  enum class Kind : std::uint8_t { Text, Binary };
  Kind kind = Kind::Binary;
  std::string bytes;
};

// An upgraded connection. receive() and send() may wait at the same time, one each.
class WebSocket {
 public:
  virtual ~WebSocket() = default;
  // An error when the other side is gone or has closed.
  virtual asio::awaitable<Result<SocketMessage>> receive() = 0;
  virtual asio::awaitable<Result<void>> send(SocketMessage::Kind kind, std::string_view bytes) = 0;
  virtual asio::awaitable<void> close(std::uint16_t code, std::string_view reason) = 0;
  // Messages of up to so many bytes from here on, in one frame each.
  virtual void allow_large_messages(std::size_t most) = 0;
};

// How long the body of an answer is: known, or told piece by piece (chunked).
struct Length {
  std::optional<std::uint64_t> bytes;
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;
  virtual Request& request() = 0;

  // The caller is one that the handler knows. Until this was said once, the connection may be ended
  // to make room for others (server.h).
  virtual void accept_caller() = 0;

  // The whole body. More than `limit` bytes is Code::Exhausted, one that did not come in time is
  // ETIMEDOUT (body_refusal() in message.h makes the answer of both).
  virtual asio::awaitable<Result<std::string>> read_body(std::size_t limit) = 0;
  // Some bytes of it, 0 at its end.
  virtual asio::awaitable<Result<std::size_t>> read_some(std::span<char> into) = 0;

  // Nothing is sent before the first send() or finish(): a short answer leaves in one piece.
  virtual void begin(Response head, Length length) = 0;
  virtual bool has_begun() const = 0;
  virtual asio::awaitable<Result<void>> send(std::string_view bytes) = 0;
  // The last bytes, which may be none, and the end of the answer in one piece.
  virtual asio::awaitable<Result<void>> finish(std::string_view rest) = 0;
  // Sends the head now, for streams whose first event may be long in coming.
  virtual asio::awaitable<Result<void>> flush_head() = 0;

  // Calls `when_gone` on the loop's thread, at most once, if the client goes away before the
  // returned guard is destroyed.
  virtual std::shared_ptr<void> watch_client(std::function<void()> when_gone) = 0;

  // Answers a WebSocket handshake. The exchange is used up.
  virtual asio::awaitable<Result<std::unique_ptr<WebSocket>>> upgrade() = 0;
};

}  // namespace glovebox::serve
