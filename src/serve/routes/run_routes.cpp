// Runs: in the foreground as a stream of events, in the background with a log.
#include "serve/cancel_on_disconnect.h"
#include "serve/helpers.h"
#include "serve/routes/handlers.h"
#include "serve/routes/resumable_run.h"
#include "serve/routes/run_body.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <ranges>

namespace glovebox::serve {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostLog = 16 << 20;
// The most boxes of one session whose background runs are remembered.
constexpr std::size_t kMostBoxes = 4;

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

  void add_end(const Result<session::RunResult>& result) { write_end(writer_, result); }
  asio::awaitable<void> finish() {
    (void)co_await exchange_.finish(writer_.pending());  // the client may be gone
  }

 private:
  Exchange& exchange_;
  EventWriter writer_;
};

asio::awaitable<Answer> run_in_foreground(Call& call, std::shared_ptr<session::LiveSession> live,
                                          RunOrder order) {
  EventSink sink(call.exchange, form_of(call.request));
  auto running = carry_out(std::move(live), std::move(order), sink);
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

// Remembers that a session's box has background runs. The oldest box makes room.
void keep_box(Service& service, const std::string& session,
              const std::shared_ptr<session::LiveSession>& live) {
  auto& boxes = service.with_background[session];
  if (std::ranges::find(boxes, live) != boxes.end()) return;
  if (!boxes.empty()) live->share_spools(*boxes.back());
  boxes.push_back(live);
  if (boxes.size() > kMostBoxes) boxes.erase(boxes.begin());
}

asio::awaitable<Answer> run_in_background(Call& call, std::shared_ptr<session::LiveSession> live,
                                          RunOrder order) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  if (!info.workspaces.empty() && info.workspaces.front().mode == WorkspaceMode::Read) {
    co_return refuse(400, "INVALID_REQUEST_BODY",
                     "background runs not supported in read-only workspace mode");
  }
  order.run.timeout.reset();
  order.run.error_output = session::ErrorOutput::Merged;
  CO_TRY(const session::BackgroundStatus status,
         or_refuse(co_await live->start_background(std::move(order.run))));
  CO_TRY_VOID(find_session(call));  // it may have been deleted meanwhile
  keep_box(call.service, info.id, live);
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

// The box that the run of this request is or was in: the newest that knows it.
Result<const session::LiveSession*, ApiError> find_background(const Call& call,
                                                              const std::string& session) {
  const auto found = call.service.with_background.find(session);
  if (found != call.service.with_background.end()) {
    for (const auto& live : std::views::reverse(found->second)) {
      if (live->background(call.request.parts.at(1))) return live.get();
    }
  }
  return refuse(404, "RUN_NOT_FOUND", "run not found");
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
  CO_TRY(RunOrder order, read_run_order(call, body));
  if (!live) {
    if (order.background) co_return tl::unexpected(live.error());
    co_return co_await tell_dead(call, live.error());
  }
  if (order.background) co_return co_await run_in_background(call, *live, std::move(order));
  if (order.resume.count() > 0) co_return co_await run_resumably(call, *live, std::move(order));
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
  if (log->skipped > 0) {
    answer.headers.push_back({"X-Glovebox-Skipped", std::to_string(log->skipped)});
  }
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
