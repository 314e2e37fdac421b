// A terminal in a session, over a WebSocket.
//
// From the client: binary frames that begin with a zero byte are keys; text frames are JSON:
// {"type":"resize","cols":80,"rows":24}, {"type":"signal","signal":"SIGINT"}, {"type":"ping"}. To
// the client: {"type":"connected",...}, binary frames that begin with 1 and hold what the terminal
// shows, {"type":"exit","exit_code":0}, {"type":"error","code":...,"message":...}.
#include "async/task_group.h"
#include "base/utf8.h"
#include "serve/helpers.h"
#include "serve/routes/handlers.h"
#include "serve/routes/run_body.h"

#include <boost/json/serialize.hpp>

#include <charconv>
#include <csignal>

namespace glovebox::serve {
namespace {

namespace json = boost::json;

constexpr char kInputFrame = 0;
constexpr char kOutputFrame = 1;
constexpr char kErrorFrame = 2;
constexpr std::int64_t kMostMilliseconds = 366LL * 24 * 3600 * 1000;
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

  asio::awaitable<Result<void>> take(guest::Stream stream, std::string_view bytes) override {
    frame_.assign(1, stream == guest::Stream::Error ? kErrorFrame : kOutputFrame);
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
    // A run that has just ended cannot be resized, which does no harm.
    (void)run.resize({static_cast<std::uint16_t>(*rows), static_cast<std::uint16_t>(*columns)});
  } else if (type == "signal") {
    const std::string name = reader.text("signal").value_or("");
    const int number = name == "SIGTERM"   ? SIGTERM
                       : name == "SIGKILL" ? SIGKILL
                       : name == "SIGHUP"  ? SIGHUP
                                           : SIGINT;
    (void)run.signal(number);
  } else if (type == "eof") {
    run.end_input();
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

std::string text_of(const json::object& object) { return to_valid_utf8(json::serialize(object)); }

session::RunRequest terminal_run(const Call& call, const session::LiveSession& live) {
  session::RunRequest request;
  request.code = live.shell() == guest::ShellKind::Bash ? "exec bash -i" : "exec sh -i";
  request.shell = session::RunShell::Own;
  request.error_output = session::ErrorOutput::Merged;
  request.input = guest::RunInput::Streamed;
  request.env = {{"TERM", "xterm-256color"}};
  request.terminal =
      plan::TerminalSize{size_of(call.request, "rows", 24), size_of(call.request, "cols", 80)};
  return request;
}

Result<session::RunRequest, ApiError> read_start(const Call& call, const SocketMessage& first) {
  if (first.kind != SocketMessage::Kind::Text) {
    return refuse(400, "INVALID_FRAME", "the first frame says what to run");
  }
  TRY(const json::value message, parse_json(first.bytes, call.service.config.json_depth));
  BodyProblems problems;
  session::RunRequest request;
  {
    ObjectReader reader(message, "", problems, unknown_fields(call));
    if (reader.text("type").value_or("") != "start") problems.add("'type' is not start");
    request.code = reader.text("code").value_or("");
    if (request.code.empty()) problems.add("'code' is required");
    request.cwd = reader.text("cwd").value_or("");
    request.env = read_variables(reader, problems);
    if (const auto timeout = reader.number("timeout_ms", 1, kMostMilliseconds)) {
      request.timeout = std::chrono::milliseconds(*timeout);
    }
  }
  TRY_VOID(problems.check());
  request.input = guest::RunInput::Streamed;
  return request;
}

std::string error_text(std::string_view code, std::string_view message) {
  return text_of({{"type", "error"}, {"code", code}, {"message", message}});
}

// Says hello, starts what is asked for, and relays until it is over. What is sent as the last word.
asio::awaitable<std::string> serve_run(Call& call, std::shared_ptr<session::LiveSession> live,
                                       std::shared_ptr<WebSocket> socket, bool terminal) {
  const std::string& id = call.request.parts.at(0);
  const std::string hello =
      text_of({{"type", "connected"}, {"session_id", id}, {"mode", terminal ? "pty" : "pipe"}});
  (void)co_await socket->send(SocketMessage::Kind::Text, hello);  // follow() sees who is gone
  session::RunRequest request;
  if (terminal) {
    request = terminal_run(call, *live);
  } else {
    const auto first = co_await socket->receive();
    if (!first) co_return "";
    auto asked = read_start(call, *first);
    if (!asked) co_return error_text(asked.error().code, asked.error().message);
    request = *std::move(asked);
  }
  auto started = co_await live->start(std::move(request));
  if (!started) co_return error_text("RUNTIME_ERROR", started.error().message);
  const std::shared_ptr<session::LiveRun> run = *std::move(started);
  audit(call, terminal ? "pty" : "run", {{"session_id", id}});
  session::spawn_owning(call.service.io.get_executor(), read_client(socket, run));
  TerminalSink sink(*socket);
  const auto result = co_await run->follow(sink);
  if (!result) co_return error_text("RUNTIME_ERROR", result.error().message);
  co_return text_of(
      {{"type", "exit"}, {"exit_code", result->code}, {"timed_out", result->timed_out}});
}

}  // namespace

asio::awaitable<Answer> open_pty(Call& call) {
  CO_TRY(std::shared_ptr<session::LiveSession> live, attach_session(call));
  if (call.request.find_header("upgrade") == nullptr) {
    co_return refuse(426, "UPGRADE_REQUIRED", "a terminal is a WebSocket");
  }
  const std::string* pty = call.request.find_query("pty");
  const bool terminal = pty == nullptr || *pty != "0";
  auto upgraded = co_await call.exchange.upgrade();
  if (!upgraded) co_return already_sent();
  const std::shared_ptr<WebSocket> socket = *std::move(upgraded);
  const std::string last = co_await serve_run(call, live, socket, terminal);
  if (!last.empty()) (void)co_await socket->send(SocketMessage::Kind::Text, last);
  co_await socket->close(kNormalClosure, "over");
  co_return already_sent();
}

}  // namespace glovebox::serve
