// One client connection: reads requests, hands them to the server's handler, writes answers.
//
// The bytes are parsed by Boost.Beast and are hostile: the head is bounded, a body is read only as
// far as a handler asks for it, and both have deadlines. After anything that does not parse there
// is one answer, and the connection ends.
#pragma once

#include "http/exchange.h"
#include "http/server.h"
#include "http/stream.h"

#include <boost/asio/awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace glovebox::serve {

class Connection final : public Exchange, public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  Connection(Server& server, Stream::Socket socket, Peer peer,
             std::shared_ptr<asio::ssl::context> tls);

  // Serves requests until the connection ends.
  asio::awaitable<void> run();
  // By the sweep: gives up when the deadline of what is waited for has passed.
  void check_deadline(Clock::time_point now);
  // By drain(): ends it now if it is between two requests.
  void end_if_idle();
  void cut();
  // Instead of run(), when there are too many connections.
  asio::awaitable<void> turn_away();

  const Peer& peer() const { return peer_; }
  bool is_known() const { return is_known_; }
  bool is_idle() const { return waiting_ == Wait::Idle; }
  // Of a known one when it last became idle, else when it was accepted.
  Clock::time_point since() const { return is_known_ ? idle_since_ : accepted_; }
  // Ends it to make room for another. It is counted no more, and goes when its coroutine does.
  void evict();
  bool is_evicted() const { return is_evicted_; }

  const Request& request() const override { return request_; }
  void accept_caller() override { is_known_ = true; }
  Request& request() override { return request_; }
  asio::awaitable<Result<std::string>> read_body(std::size_t limit) override;
  asio::awaitable<Result<std::size_t>> read_some(std::span<char> into) override;
  void begin(Response head, Length length) override;
  bool has_begun() const override { return begun_; }
  asio::awaitable<Result<void>> send(std::string_view bytes) override;
  asio::awaitable<Result<void>> finish(std::string_view rest) override;
  asio::awaitable<Result<void>> flush_head() override;
  std::shared_ptr<void> watch_client(std::function<void()> when_gone) override;
  asio::awaitable<Result<std::unique_ptr<WebSocket>>> upgrade() override;

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::buffer_body>;
  enum class Wait : std::uint8_t { Nothing, Idle, Head, Body, Write };
  enum class After : std::uint8_t { Next, Close };

  asio::awaitable<bool> shake_hands();
  // Nothing when the head is there; else how to end.
  asio::awaitable<std::optional<Response>> read_head();
  asio::awaitable<bool> fill_buffer(std::size_t most);
  std::size_t feed_parser(boost::system::error_code& problem);
  tl::unexpected<Error> late_body();
  // What is wrong with the request that was read; nothing when it can be handled.
  std::optional<Response> take_request();
  asio::awaitable<After> serve_one();
  asio::awaitable<Response> handle();
  asio::awaitable<After> answer(Response response);
  asio::awaitable<bool> write_response(const Response& response);
  asio::awaitable<Result<void>> write(std::span<const asio::const_buffer> pieces);
  asio::awaitable<Result<void>> send_continue();
  // Reads away what is left of the body if it is little; false when it is not.
  asio::awaitable<bool> drain_body();
  asio::awaitable<void> linger();
  void count_body(std::size_t bytes);
  std::string make_head(const Response& response, Length length);
  void wait_for(Wait what, std::chrono::milliseconds patience);

  Server& server_;
  Stream stream_;
  Peer peer_;
  std::shared_ptr<asio::ssl::context> tls_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  Request request_;

  const Clock::time_point accepted_ = Clock::now();
  Clock::time_point idle_since_ = accepted_;
  bool is_known_ = false;
  bool is_evicted_ = false;
  Wait waiting_ = Wait::Nothing;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool timed_out_ = false;
  std::size_t body_step_ = 0;
  bool body_broke_ = false;  // what is left of it cannot be read
  bool write_broke_ = false;

  // The answer under way.
  bool begun_ = false;
  bool finished_ = false;
  bool chunked_ = false;
  bool close_ = false;
  bool upgraded_ = false;
  bool continue_wanted_ = false;
  std::string pending_head_;
};

// Makes a WebSocket of a stream whose request was an upgrade (websocket.cpp). `alive` is kept as
// long as the socket.
asio::awaitable<Result<std::unique_ptr<WebSocket>>> accept_websocket(Stream& stream,
                                                                     const Request& request,
                                                                     std::shared_ptr<void> alive);

}  // namespace glovebox::serve
