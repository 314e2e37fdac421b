// A terminal in a session, over a WebSocket.
//
// From the client: binary frames that begin with a zero byte are keys; text frames are JSON:
// {"type":"resize","cols":80,"rows":24}, {"type":"signal","signal":"SIGINT"}, {"type":"ping"}. To
// the client: {"type":"connected",...}, binary frames that begin with 1 and hold what the terminal
// shows, {"type":"exit","exit_code":0}, {"type":"error","code":...,"message":...}.
#include "serve/handlers.h"
#include "serve/helpers.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/json/serialize.hpp>

#include <charconv>
#include <csignal>

namespace glovebox::serve {
namespace {

namespace json = boost::json;

constexpr char kInputFrame = 0;
constexpr char kOutputFrame = 1;
constexpr std::uint16_t kNormalClosure = 1000;

std::uint16_t size_of(const Request& request, std::string_view name, std::uint16_t otherwise) {
  const std::string* text = request.find_query(name);
  std::uint16_t value = 0;
  if (text == nullptr) return otherwise;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), value);
  return problem == std::errc() && value > 0 ? value : otherwise;
}

class TerminalSink final : public session::OutputReader {
 public:
  explicit TerminalSink(WebSocket& socket) : socket_(socket) {}

  asio::awaitable<Result<void>> take(guest::Stream /*stream*/, std::string_view bytes) override {
    frame_.assign(1, kOutputFrame);
    frame_ += bytes;
    co_return co_await socket_.send(SocketMessage::Kind::Binary, frame_);
  }

 private:
  WebSocket& socket_;
  std::string frame_;
};

void obey(session::LiveRun& run, std::string_view text) {
  const auto message = parse_json(text, /*depth=*/8);
  if (!message) return;
  BodyProblems ignored;
  ObjectReader reader(*message, "", ignored, Unknown::Ignore);
  const std::string type = reader.text("type").value_or("");
  if (type == "resize") {
    const auto rows = reader.number("rows", 1, 10'000);
    const auto columns = reader.number("cols", 1, 10'000);
    if (!rows || !columns) return;
    // A run that has just ended cannot be resized, and nobody minds.
    (void)run.resize({static_cast<std::uint16_t>(*rows), static_cast<std::uint16_t>(*columns)});
  } else if (type == "signal") {
    const std::string name = reader.text("signal").value_or("");
    const int number = name == "SIGTERM"   ? SIGTERM
                       : name == "SIGKILL" ? SIGKILL
                       : name == "SIGHUP"  ? SIGHUP
                                           : SIGINT;
    (void)run.signal(number);
  }
}

// Hands keys to the run until the client goes, which ends the run.
asio::awaitable<void> read_client(std::shared_ptr<WebSocket> socket,
                                  std::shared_ptr<session::LiveRun> run) {
  for (;;) {
    auto message = co_await socket->receive();
    if (!message) break;
    if (message->kind == SocketMessage::Kind::Text) {
      obey(*run, message->bytes);
    } else if (message->bytes.starts_with(kInputFrame)) {
      const auto written = co_await run->write_input(std::string_view(message->bytes).substr(1));
      if (!written) break;
    }
  }
  run->cancel();
}

std::string text_of(const json::object& object) { return json::serialize(object); }

}  // namespace

asio::awaitable<Answer> open_pty(Call& call) {
  CO_TRY(std::shared_ptr<session::LiveSession> live, attach_session(call));
  const std::string* wanted = call.request.find_header("upgrade");
  if (wanted == nullptr) {
    co_return refuse(426, "UPGRADE_REQUIRED", "a terminal is a WebSocket");
  }
  session::RunRequest request;
  request.code = live->shell() == guest::ShellKind::Bash ? "exec bash -i" : "exec sh -i";
  request.shell = session::RunShell::Own;
  request.error_output = session::ErrorOutput::Merged;
  request.input = guest::RunInput::Streamed;
  request.env = {"TERM=xterm-256color"};
  request.terminal =
      session::RunTerminal{size_of(call.request, "rows", 24), size_of(call.request, "cols", 80)};
  CO_TRY(std::shared_ptr<session::LiveRun> run,
         or_refuse(co_await live->start(std::move(request))));
  auto upgraded = co_await call.exchange.upgrade();
  if (!upgraded) co_return already_sent();
  const std::shared_ptr<WebSocket> socket = *std::move(upgraded);
  const std::string hello =
      text_of({{"type", "connected"}, {"session_id", call.request.parts.at(0)}, {"mode", "pty"}});
  (void)co_await socket->send(SocketMessage::Kind::Text, hello);  // follow() sees who is gone
  audit(call, "pty", {{"session_id", call.request.parts.at(0)}});
  asio::co_spawn(call.service.io, read_client(socket, run), asio::detached);
  TerminalSink sink(*socket);
  const auto result = co_await run->follow(sink);
  const std::string last = result ? text_of({{"type", "exit"}, {"exit_code", result->code}})
                                  : text_of({{"type", "error"},
                                             {"code", "RUNTIME_ERROR"},
                                             {"message", result.error().message}});
  (void)co_await socket->send(SocketMessage::Kind::Text, last);
  co_await socket->close(kNormalClosure, "over");
  co_return already_sent();
}

}  // namespace glovebox::serve
