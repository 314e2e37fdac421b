#include "support/hello_server.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <exception>
#include <thread>

namespace glovebox::bench {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Unix = asio::local::stream_protocol;

asio::awaitable<void> answer(Unix::socket socket) {
  boost::beast::flat_buffer buffer;
  try {
    for (;;) {
      http::request<http::string_body> request;
      co_await http::async_read(socket, buffer, request, asio::use_awaitable);
      http::response<http::string_body> response(http::status::ok, 11);
      response.body() = "hello";
      response.prepare_payload();
      co_await http::async_write(socket, response, asio::use_awaitable);
    }
  } catch (const std::exception&) {
    co_return;  // the client is done
  }
}

asio::awaitable<void> accept(Unix::acceptor& acceptor) {
  for (;;) {
    Unix::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
    asio::co_spawn(acceptor.get_executor(), answer(std::move(socket)), asio::detached);
  }
}

}  // namespace

struct HelloServer::Parts {
  explicit Parts(const std::string& path) : acceptor(io, path) {}

  asio::io_context io{1};
  Unix::acceptor acceptor;
  std::thread thread;
};

HelloServer::HelloServer(const std::string& path) : parts_(std::make_unique<Parts>(path)) {
  asio::co_spawn(parts_->io, accept(parts_->acceptor), asio::detached);
  parts_->thread = std::thread([&io = parts_->io] { io.run(); });
}

HelloServer::~HelloServer() {
  parts_->io.stop();
  parts_->thread.join();
}

}  // namespace glovebox::bench
