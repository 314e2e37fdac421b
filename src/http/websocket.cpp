// WebSockets, by Boost.Beast. A file of its own because nothing compiles slower.
#include "http/connection.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/websocket/stream.hpp>

namespace glovebox::serve {
namespace {

namespace websocket = boost::beast::websocket;
namespace http = boost::beast::http;
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

// One message of a client: keys that were pressed, a pasted text.
constexpr std::size_t kMaxMessage = 1 << 20;
constexpr std::size_t kLargeWriteBuffer = std::size_t{256} << 10;

class BeastSocket final : public WebSocket {
 public:
  BeastSocket(Stream& stream, std::shared_ptr<void> alive)
      : alive_(std::move(alive)), socket_(stream) {
    socket_.read_message_max(kMaxMessage);
    websocket::stream_base::timeout patience{};
    patience.handshake_timeout = std::chrono::seconds(10);
    patience.idle_timeout = std::chrono::seconds(60);
    patience.keep_alive_pings = true;
    socket_.set_option(patience);
  }

  asio::awaitable<Result<void>> accept(const Request& request) {
    // The request again, as the library wants it: what was read is ours.
    http::request<http::empty_body> head;
    head.version(11);
    head.method(http::verb::get);
    head.target(request.path);
    for (const Field& field : request.headers) head.insert(field.name, field.value);
    const auto [problem] = co_await socket_.async_accept(head, kTuple);
    if (problem) co_return fail(Code::Invalid, "no WebSocket handshake: {}", problem.message());
    co_return Result<void>{};
  }

  asio::awaitable<Result<SocketMessage>> receive() override {
    SocketMessage message;
    auto into = asio::dynamic_buffer(message.bytes);
    const auto [problem, count] = co_await socket_.async_read(into, kTuple);
    if (problem) co_return fail(Code::Os, "the WebSocket ended: {}", problem.message());
    message.kind = socket_.got_text() ? SocketMessage::Kind::Text : SocketMessage::Kind::Binary;
    co_return message;
  }

  asio::awaitable<Result<void>> send(SocketMessage::Kind kind, std::string_view bytes) override {
    socket_.text(kind == SocketMessage::Kind::Text);
    const auto [problem, count] = co_await socket_.async_write(asio::buffer(bytes), kTuple);
    if (problem) co_return fail(Code::Os, "the WebSocket ended: {}", problem.message());
    co_return Result<void>{};
  }

  void allow_large_messages(std::size_t most) override {
    socket_.read_message_max(most);
    socket_.auto_fragment(false);
    socket_.write_buffer_bytes(kLargeWriteBuffer);
  }

  asio::awaitable<void> close(std::uint16_t code, std::string_view reason) override {
    websocket::close_reason why(static_cast<websocket::close_code>(code));
    why.reason = boost::beast::string_view(reason.data(), reason.size());
    // A client that does not answer the close frame is gone, which is what was wanted.
    (void)co_await socket_.async_close(why, kTuple);
  }

 private:
  std::shared_ptr<void> alive_;
  websocket::stream<Stream&, /*deflateSupported=*/false> socket_;
};

}  // namespace

asio::awaitable<Result<std::unique_ptr<WebSocket>>> accept_websocket(Stream& stream,
                                                                     const Request& request,
                                                                     std::shared_ptr<void> alive) {
  auto socket = std::make_unique<BeastSocket>(stream, std::move(alive));
  const auto accepted = co_await socket->accept(request);
  if (!accepted) co_return tl::unexpected(accepted.error());
  co_return std::unique_ptr<WebSocket>(std::move(socket));
}

}  // namespace glovebox::serve
