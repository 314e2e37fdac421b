// Runs: in the foreground as a stream of events, in the background with a log.
#include "serve/handlers.h"
#include "serve/helpers.h"
#include "serve/sse.h"
#include "serve/until_gone.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <array>
#include <charconv>
#include <csignal>

namespace glovebox::serve {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMostSeconds = 10LL * 365 * 24 * 3600;
constexpr std::size_t kMostLog = 16 << 20;

struct RunOrder {
  session::RunRequest run;
  std::optional<std::string> input;
  bool background = false;
};

void read_terminal(ObjectReader& reader, RunOrder& order, BodyProblems& problems, Unknown unknown) {
  const json::value* pty = reader.find("pty");
  if (pty == nullptr || (pty->is_bool() && !pty->as_bool())) return;
  session::RunTerminal size;
  if (!pty->is_bool()) {
    ObjectReader inner(*pty, "pty.", problems, unknown);
    size.rows = static_cast<std::uint16_t>(inner.number("rows", 1, 10'000).value_or(size.rows));
    size.columns =
        static_cast<std::uint16_t>(inner.number("cols", 1, 10'000).value_or(size.columns));
  }
  order.run.terminal = size;
  order.run.shell = session::RunShell::Own;
}

Result<RunOrder, ApiError> read_order(const Call& call, const json::value& body) {
  RunOrder order;
  BodyProblems problems;
  const Unknown unknown = unknown_fields(call);
  {
    ObjectReader reader(body, "", problems, unknown);
    order.run.code = reader.text("code").value_or("");
    if (order.run.code.empty()) problems.add("'code' is required");
    order.run.cwd = reader.text("cwd").value_or("");
    order.background = reader.flag("background").value_or(false);
    order.input = reader.text("stdin");
    for (const Field& entry : reader.text_map("envs")) {
      order.run.env.push_back(entry.name + "=" + entry.value);
    }
    const auto timeout = reader.number("timeout_seconds", 0, kMostSeconds);
    const std::chrono::seconds most =
        timeout ? std::chrono::seconds(*timeout) : call.service.config.session.run_timeout;
    if (most.count() > 0) order.run.timeout = most;
    const std::string errors = reader.text("stderr").value_or("merged");
    if (errors != "merged" && errors != "separate") reader.wrong("stderr", "merged or separate");
    order.run.error_output =
        errors == "separate" ? session::ErrorOutput::Apart : session::ErrorOutput::Merged;
    read_terminal(reader, order, problems, unknown);
  }
  TRY_VOID(problems.check());
  if (order.run.code.size() > guest::kMaxCode) {
    return refuse(413, "BODY_TOO_LARGE", "'code' has at most {} bytes", guest::kMaxCode);
  }
  if (order.input) order.run.input = guest::RunInput::Streamed;
  return order;
}

Response event_stream_head() {
  Response head;
  head.headers = {{"Content-Type", "text/event-stream"},
                  {"Cache-Control", "no-cache"},
                  {"Connection", "keep-alive"},
                  {"X-Accel-Buffering", "no"}};
  return head;
}

EventForm form_of(const Request& request) {
  const std::string* accept = request.find_header("accept");
  const std::string* profile = request.find_query("profile");
  const bool standard =
      (accept != nullptr && accept->find("profile=standard") != std::string::npos) ||
      (profile != nullptr && *profile == "standard");
  return standard ? EventForm::Standard : EventForm::Lines;
}

// Sends what a run prints as it comes. The head of the answer leaves with the first event.
class EventSink final : public session::OutputReader {
 public:
  EventSink(Exchange& exchange, EventForm form) : exchange_(exchange), writer_(form) {
    exchange_.begin(event_stream_head(), Length{});
  }

  asio::awaitable<Result<void>> take(guest::Stream stream, std::string_view bytes) override {
    writer_.add(stream, bytes);
    if (writer_.pending().empty()) co_return Result<void>{};
    auto sent = co_await exchange_.send(writer_.pending());
    writer_.pending().clear();
    co_return sent;
  }

  void add_end(const Result<session::RunResult>& result) {
    if (!result) {
      writer_.error(result.error().message, "RuntimeError", result.error().message);
    } else if (result->timed_out) {
      writer_.error("context deadline exceeded", "RuntimeError", "context deadline exceeded");
    } else if (result->canceled) {
      writer_.error("context canceled", "RuntimeError", "context canceled");
    } else if (result->code != 0) {
      const std::string code = std::to_string(result->code);
      writer_.error("command exited with code " + code, "ExitError", code);
    } else {
      writer_.complete();
    }
  }
  asio::awaitable<void> finish() {
    (void)co_await exchange_.finish(writer_.pending());  // the client may be gone
  }

 private:
  Exchange& exchange_;
  EventWriter writer_;
};

asio::awaitable<void> feed(std::shared_ptr<session::LiveRun> run, std::string input) {
  // A run that does not read its input to the end is no error.
  (void)co_await run->write_input(input);
  run->end_input();
}

asio::awaitable<Result<session::RunResult>> run_with_input(
    std::shared_ptr<session::LiveSession> live, RunOrder order, session::OutputReader& sink) {
  CO_TRY(const std::shared_ptr<session::LiveRun> run, co_await live->start(std::move(order.run)));
  const auto executor = co_await asio::this_coro::executor;
  asio::co_spawn(executor, feed(run, order.input.value_or("")), asio::detached);
  co_return co_await run->follow(sink);
}

asio::awaitable<Answer> run_in_foreground(Call& call, std::shared_ptr<session::LiveSession> live,
                                          RunOrder order) {
  EventSink sink(call.exchange, form_of(call.request));
  const bool plain = !order.input && !order.run.terminal;
  auto running =
      plain ? live->run(std::move(order.run), sink) : run_with_input(live, std::move(order), sink);
  const auto result = co_await until_gone(call.exchange, std::move(running));
  sink.add_end(result);
  co_await sink.finish();
  co_return already_sent();
}

// A session that is over takes no runs. Clients that stream expect to be told in the stream.
asio::awaitable<Answer> tell_dead(Call& call, const ApiError& why) {
  EventSink sink(call.exchange, form_of(call.request));
  sink.add_end(fail(Code::Os, "{}", why.message));
  co_await sink.finish();
  co_return already_sent();
}

asio::awaitable<Answer> run_in_background(Call& call, std::shared_ptr<session::LiveSession> live,
                                          RunOrder order) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  if (!info.workspaces.empty() && info.workspaces.front().mode == session::WorkspaceMode::Read) {
    co_return refuse(400, "INVALID_REQUEST_BODY",
                     "background runs not supported in read-only workspace mode");
  }
  order.run.timeout.reset();
  order.run.error_output = session::ErrorOutput::Merged;
  CO_TRY(const session::BackgroundStatus status,
         or_refuse(co_await live->start_background(std::move(order.run))));
  call.service.with_background.emplace(info.id, std::move(live));
  json::object answer;
  answer["session_id"] = info.id;
  answer["run_id"] = status.run_id;
  answer["started_at"] = time_text(status.started_at);
  co_return json_answer(202, answer);
}

Result<std::uint64_t, ApiError> cursor_of(const Request& request) {
  const std::string* text = request.find_query("cursor");
  std::uint64_t cursor = 0;
  if (text == nullptr || text->empty()) return cursor;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), cursor);
  if (problem != std::errc() || end != text->data() + text->size()) {
    return refuse(400, "INVALID_REQUEST", "'cursor' is a number of bytes, 0 or more");
  }
  return cursor;
}

Result<const session::LiveSession*, ApiError> find_background(const Call& call,
                                                              const std::string& session) {
  const auto found = call.service.with_background.find(session);
  if (found == call.service.with_background.end()) {
    return refuse(404, "RUN_NOT_FOUND", "run not found");
  }
  return found->second.get();
}

struct SignalName {
  std::string_view name;
  int number;
};
constexpr std::array kSignals = {SignalName{"SIGHUP", SIGHUP},   SignalName{"SIGINT", SIGINT},
                                 SignalName{"SIGQUIT", SIGQUIT}, SignalName{"SIGKILL", SIGKILL},
                                 SignalName{"SIGUSR1", SIGUSR1}, SignalName{"SIGUSR2", SIGUSR2},
                                 SignalName{"SIGTERM", SIGTERM}, SignalName{"SIGCONT", SIGCONT},
                                 SignalName{"SIGSTOP", SIGSTOP}, SignalName{"SIGWINCH", SIGWINCH}};

int find_signal(std::string_view name) {
  for (const SignalName& signal : kSignals) {
    if (name == signal.name || name == signal.name.substr(3)) return signal.number;
  }
  return 0;
}

}  // namespace

asio::awaitable<Answer> run_code(Call& call) {
  auto live = attach_session(call);
  if (!live && live.error().status != 500) co_return tl::unexpected(live.error());
  CO_TRY(const json::value body, co_await read_json(call, Empty::Refuse));
  CO_TRY(RunOrder order, read_order(call, body));
  if (!live) {
    if (order.background) co_return tl::unexpected(live.error());
    co_return co_await tell_dead(call, live.error());
  }
  if (order.background) co_return co_await run_in_background(call, *live, std::move(order));
  co_return co_await run_in_foreground(call, *live, std::move(order));
}

asio::awaitable<Answer> run_status(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  CO_TRY(const session::LiveSession* live, find_background(call, info.id));
  const auto status = live->background(call.request.parts.at(1));
  if (!status) co_return refuse(404, "RUN_NOT_FOUND", "run not found");
  json::object answer;
  answer["session_id"] = info.id;
  answer["run_id"] = status->run_id;
  answer["running"] = status->running;
  answer["exit_code"] = status->exit_code ? json::value(*status->exit_code) : json::value();
  if (!status->error.empty()) answer["error"] = status->error;
  answer["started_at"] = time_text(status->started_at);
  answer["finished_at"] =
      status->finished_at ? json::value(time_text(*status->finished_at)) : json::value();
  co_return json_answer(200, answer);
}

asio::awaitable<Answer> run_logs(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  CO_TRY(const std::uint64_t cursor, cursor_of(call.request));
  CO_TRY(const session::LiveSession* live, find_background(call, info.id));
  auto log = live->background_log(call.request.parts.at(1), cursor, kMostLog);
  if (!log) co_return refuse(404, "RUN_NOT_FOUND", "run not found");
  Response answer = text_answer(200, std::move(log->bytes));
  answer.headers.push_back({"EXECD-ISOLATED-TAIL-CURSOR", std::to_string(log->next)});
  co_return answer;
}

asio::awaitable<Answer> signal_run(Call& call) {
  CO_TRY(const std::shared_ptr<session::LiveSession> live, attach_session(call));
  CO_TRY(const json::value body, co_await read_json(call, Empty::Refuse));
  BodyProblems problems;
  std::string name;
  std::string run;
  {
    ObjectReader reader(body, "", problems, unknown_fields(call));
    name = reader.text("signal").value_or("SIGINT");
    run = reader.text("run_id").value_or("");
    if (find_signal(name) == 0) reader.wrong("signal", "the name of a signal such as SIGINT");
    if (!run.empty() && find_signal(name) != SIGKILL && find_signal(name) != SIGTERM) {
      problems.add("a background run takes SIGTERM and SIGKILL");
    }
  }
  CO_TRY_VOID(problems.check());
  auto sent = run.empty() ? live->signal_shell_run(find_signal(name)) : live->kill_background(run);
  if (!sent && sent.error().code == Code::NotFound) {
    co_return refuse(404, "RUN_NOT_FOUND", "no such run is under way");
  }
  CO_TRY_VOID(or_refuse(std::move(sent)));
  audit(call, "signal", {{"session_id", call.request.parts.at(0)}, {"signal", name}});
  co_return empty_answer();
}

}  // namespace glovebox::serve
