#include "serve/routes/run_body.h"

#include "async/task_group.h"

namespace glovebox::serve {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMostSeconds = 10LL * 365 * 24 * 3600;
constexpr std::int64_t kMostResumeSeconds = 3600;

void read_terminal(ObjectReader& reader, RunOrder& order, BodyProblems& problems, Unknown unknown) {
  const json::value* pty = reader.find("pty");
  if (pty == nullptr || (pty->is_bool() && !pty->as_bool())) return;
  plan::TerminalSize size;
  if (!pty->is_bool()) {
    ObjectReader inner(*pty, "pty.", problems, unknown);
    size.rows = static_cast<std::uint16_t>(inner.number("rows", 1, 10'000).value_or(size.rows));
    size.columns =
        static_cast<std::uint16_t>(inner.number("cols", 1, 10'000).value_or(size.columns));
  }
  order.run.terminal = size;
  order.run.shell = session::RunShell::Own;
}

void read_resume(const Call& call, ObjectReader& reader, RunOrder& order, BodyProblems& problems) {
  order.resume =
      std::chrono::seconds(reader.number("resume_seconds", 0, kMostResumeSeconds).value_or(0));
  if (order.resume.count() == 0) return;
  if (order.background) problems.add("a background run has a log: it takes no 'resume_seconds'");
  if (form_of(call.request) != EventForm::Standard) {
    problems.add("'resume_seconds' needs events with numbers: ask for profile=standard");
  }
}

asio::awaitable<void> feed(std::shared_ptr<session::LiveRun> run, std::string input) {
  // A run that does not read its input to the end is no error.
  (void)co_await run->write_input(input);
  run->end_input();
}

}  // namespace

std::vector<plan::EnvEntry> read_variables(ObjectReader& reader, BodyProblems& problems) {
  std::vector<plan::EnvEntry> variables;
  for (Field& entry : reader.text_map("envs")) {
    variables.push_back({std::move(entry.name), std::move(entry.value)});
  }
  const auto checked = session::check_environment(variables);
  if (!checked) problems.add("'envs': {}", checked.error().message);
  return variables;
}

Result<RunOrder, ApiError> read_run_order(const Call& call, const json::value& body) {
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
    order.run.env = read_variables(reader, problems);
    const auto timeout = reader.number("timeout_seconds", 0, kMostSeconds);
    const std::chrono::seconds most =
        timeout ? std::chrono::seconds(*timeout) : call.service.config.session.run_timeout;
    if (most.count() > 0) order.run.timeout = most;
    const std::string errors = reader.text("stderr").value_or("merged");
    if (errors != "merged" && errors != "separate") reader.wrong("stderr", "merged or separate");
    order.run.error_output =
        errors == "separate" ? session::ErrorOutput::Apart : session::ErrorOutput::Merged;
    read_terminal(reader, order, problems, unknown);
    read_resume(call, reader, order, problems);
  }
  TRY_VOID(problems.check());
  if (order.run.code.size() > guest::kMaxCode) {
    return refuse(413, "BODY_TOO_LARGE", "'code' has at most {} bytes", guest::kMaxCode);
  }
  if (order.input) order.run.input = guest::RunInput::Streamed;
  return order;
}

asio::awaitable<Result<session::RunResult>> carry_out(std::shared_ptr<session::LiveSession> live,
                                                      RunOrder order, session::OutputReader& sink) {
  if (!order.input && !order.run.terminal) {
    co_return co_await live->run(std::move(order.run), sink);
  }
  CO_TRY(const std::shared_ptr<session::LiveRun> run, co_await live->start(std::move(order.run)));
  const auto executor = co_await asio::this_coro::executor;
  session::spawn_owning(executor, feed(run, order.input.value_or("")));
  co_return co_await run->follow(sink);
}

void write_end(EventWriter& writer, const Result<session::RunResult>& result) {
  if (!result) {
    writer.error(result.error().message, "RuntimeError", result.error().message);
  } else if (result->timed_out) {
    writer.error("context deadline exceeded", "RuntimeError", "context deadline exceeded");
  } else if (result->canceled) {
    writer.error("context canceled", "RuntimeError", "context canceled");
  } else if (result->code != 0) {
    const std::string code = std::to_string(result->code);
    writer.error("command exited with code " + code, "ExitError", code);
  } else {
    writer.complete();
  }
}

EventForm form_of(const Request& request) {
  const std::string* accept = request.find_header("accept");
  const std::string* profile = request.find_query("profile");
  const bool standard =
      (accept != nullptr && accept->find("profile=standard") != std::string::npos) ||
      (profile != nullptr && *profile == "standard");
  return standard ? EventForm::Standard : EventForm::Lines;
}

Response event_stream_head() {
  Response head;
  head.headers = {{"Content-Type", "text/event-stream"},
                  {"Cache-Control", "no-cache"},
                  {"Connection", "keep-alive"},
                  {"X-Accel-Buffering", "no"}};
  return head;
}

}  // namespace glovebox::serve
