#include "client/run_channel.h"

#include "base/file.h"
#include "base/strict_json.h"
#include "client/client_connection.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <deque>
#include <optional>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;
namespace websocket = boost::beast::websocket;
using Problem = boost::system::error_code;
constexpr auto kQuietly = asio::as_tuple(asio::use_awaitable);

constexpr char kInput = 0, kOutput = 1, kError = 2;
constexpr std::size_t kMostMessage = std::size_t{4} << 20;

class Channel {
 public:
  Channel(HttpClient service, RunToRelay run)
      : service_(std::move(service)), run_(std::move(run)), stream_(service_.connection().socket) {
    stream_.read_message_max(kMostMessage);
  }

  Result<int> run(const std::string& target) {
    TRY_VOID(shake_hands(target));
    asio::io_context& loop = service_.connection().loop;
    if (!run_.first.empty()) send({true, run_.first});
    asio::co_spawn(loop, read_messages(), asio::detached);
    asio::co_spawn(loop, read_input(), asio::detached);
    asio::co_spawn(loop, pass_signals(), asio::detached);
    loop.run();
    if (problem_) return tl::unexpected(*problem_);
    if (!code_) return fail(Code::Os, "the session ended before the run did");
    return *code_;
  }

 private:
  struct Message {
    bool is_text = false;
    std::string bytes;
  };

  Result<void> shake_hands(const std::string& target) {
    const std::string token = service_.connection().address.token;
    stream_.set_option(websocket::stream_base::decorator([token](websocket::request_type& request) {
      if (token.empty()) return;
      request.set(boost::beast::http::field::authorization, "Bearer " + token);
    }));
    websocket::response_type response;
    Problem problem;
    stream_.handshake(response, service_.connection().host_header(), target, problem);
    if (problem == websocket::error::upgrade_declined) {
      Reply reply;
      reply.status = response.result_int();
      reply.body = response.body();
      return tl::unexpected(refusal_of(reply));
    }
    if (problem) return fail(Code::Os, "open a run in the session: {}", problem.message());
    return {};
  }

  void stop(std::optional<Error> problem) {
    if (problem && !code_) problem_ = std::move(problem);
    service_.connection().loop.stop();
  }

  asio::awaitable<void> read_messages() {
    boost::beast::flat_buffer buffer;
    while (true) {
      const auto [problem, size] = co_await stream_.async_read(buffer, kQuietly);
      if (problem == websocket::error::closed) co_return stop(std::nullopt);
      if (problem) {
        co_return stop(Error{Code::Os, problem.value(),
                             fmt::format("read from the session: {}", problem.message())});
      }
      const std::string bytes = boost::beast::buffers_to_string(buffer.data());
      buffer.clear();
      const auto taken = stream_.got_text() ? take_text(bytes) : take_bytes(bytes);
      if (!taken) co_return stop(taken.error());
      if (code_) co_return stop(std::nullopt);
    }
  }

  Result<void> take_bytes(std::string_view bytes) {
    const char kind = bytes.empty() ? '\x7f' : bytes.front();
    if (kind != kOutput && kind != kError) {
      return fail(Code::Os, "the service sent an unknown message");
    }
    return write_all(BorrowedFd(kind == kOutput ? 1 : 2), bytes.substr(1));
  }

  // {"type":"exit","exit_code":N} and {"type":"error","message":...}; others are news.
  Result<void> take_text(std::string_view text) {
    const auto value = parse_strict_json(text, kAnyLength);
    const json::object* object = value ? value->if_object() : nullptr;
    if (object == nullptr) return fail(Code::Os, "the service sent an unknown message");
    const json::value* type = object->if_contains("type");
    if (type == nullptr || !type->is_string()) return {};
    if (type->as_string() == "exit") {
      const json::value* code = object->if_contains("exit_code");
      if (code == nullptr || !code->is_int64()) {
        return fail(Code::Os, "the service said no exit code");
      }
      code_ = static_cast<int>(code->as_int64());
    } else if (type->as_string() == "error") {
      const json::value* message = object->if_contains("message");
      const bool said = message != nullptr && message->is_string();
      return fail(Code::Os, "{}",
                  said ? std::string(message->as_string()) : "the run ended with an error");
    }
    return {};
  }

  void send(Message message) {
    outbox_.push_back(std::move(message));
    if (outbox_.size() == 1) {
      asio::co_spawn(service_.connection().loop, write_messages(), asio::detached);
    }
  }

  asio::awaitable<void> write_messages() {
    while (!outbox_.empty()) {
      Message& next = outbox_.front();
      stream_.binary(!next.is_text);
      const auto [problem, size] = co_await stream_.async_write(asio::buffer(next.bytes), kQuietly);
      if (problem) co_return;  // the reader learns of it too
      outbox_.pop_front();
    }
  }

  // A file is read at once; a pipe or terminal when it has something.
  asio::awaitable<void> read_input() {
    asio::posix::stream_descriptor input(service_.connection().loop);
    Problem is_file;
    input.assign(::fcntl(0, F_DUPFD_CLOEXEC, 0), is_file);
    std::array<char, 16'384> piece{};
    while (true) {
      if (!is_file) {
        const auto [problem] =
            co_await input.async_wait(asio::posix::descriptor_base::wait_read, kQuietly);
        if (problem) break;
      }
      const ssize_t count = ::read(0, piece.data(), piece.size());
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count <= 0) break;
      std::string message(1, kInput);
      message.append(piece.data(), static_cast<std::size_t>(count));
      send({false, std::move(message)});
      co_await drained();
    }
    send({true, R"({"type":"eof"})"});
  }

  // Reads no more than the service takes.
  asio::awaitable<void> drained() {
    while (outbox_.size() > 1) co_await asio::post(asio::use_awaitable);
  }

  void send_size() {
    winsize size{};
    if (run_.relay != Relay::Terminal || ::ioctl(0, TIOCGWINSZ, &size) != 0) return;
    send({true,
          fmt::format(R"({{"type":"resize","cols":{},"rows":{}}})", size.ws_col, size.ws_row)});
  }

  asio::awaitable<void> pass_signals() {
    asio::signal_set signals(service_.connection().loop, SIGWINCH, SIGINT, SIGTERM);
    send_size();
    while (true) {
      const auto [problem, number] = co_await signals.async_wait(kQuietly);
      if (problem) co_return;
      if (number == SIGWINCH) {
        send_size();
      } else {
        send({true, fmt::format(R"({{"type":"signal","signal":"{}"}})",
                                number == SIGINT ? "SIGINT" : "SIGTERM")});
      }
    }
  }

  HttpClient service_;
  RunToRelay run_;
  websocket::stream<asio::generic::stream_protocol::socket&> stream_;
  std::deque<Message> outbox_;
  std::optional<int> code_;
  std::optional<Error> problem_;
};

}  // namespace

Result<int> relay_run(HttpClient service, const std::string& target, const RunToRelay& run) {
  Channel channel(std::move(service), run);
  return channel.run(target);
}

}  // namespace glovebox::app
