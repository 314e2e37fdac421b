// A connected socket, TCP or unix, with or without TLS: one type for everything above it.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/role.hpp>
#include <boost/system/error_code.hpp>

#include <memory>
#include <utility>

namespace glovebox::serve {

class Stream {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using executor_type = Socket::executor_type;
  using Tls = boost::asio::ssl::stream<Socket&>;

  explicit Stream(Socket socket) : socket_(std::move(socket)) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  executor_type get_executor() { return socket_.get_executor(); }
  Socket& socket() { return socket_; }

  // Before the first byte. The handshake is the caller's.
  Tls& use_tls(boost::asio::ssl::context& context) {
    tls_ = std::make_unique<Tls>(socket_, context);
    return *tls_;
  }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, void(boost::system::error_code, std::size_t)>(
        [this](auto handler, const Buffers& into) {
          if (tls_) {
            tls_->async_read_some(into, std::move(handler));
          } else {
            socket_.async_read_some(into, std::move(handler));
          }
        },
        token, buffers);
  }

  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, void(boost::system::error_code, std::size_t)>(
        [this](auto handler, const Buffers& from) {
          if (tls_) {
            tls_->async_write_some(from, std::move(handler));
          } else {
            socket_.async_write_some(from, std::move(handler));
          }
        },
        token, buffers);
  }

 private:
  Socket socket_;
  std::unique_ptr<Tls> tls_;
};

// What the WebSocket library calls at the end of a connection. TLS is not told good-bye: both
// sides have said so in the WebSocket's own words.
inline void teardown(boost::beast::role_type /*role*/, Stream& stream,
                     boost::system::error_code& problem) {
  problem = stream.socket().close(problem);
}
inline void beast_close_socket(Stream& stream) {
  boost::system::error_code ignored;
  stream.socket().close(ignored);
}
template <class Handler>
void async_teardown(boost::beast::role_type role, Stream& stream, Handler&& handler) {
  boost::system::error_code problem;
  teardown(role, stream, problem);
  boost::asio::post(stream.get_executor(), [handler = std::forward<Handler>(handler),
                                            problem]() mutable { std::move(handler)(problem); });
}

}  // namespace glovebox::serve
