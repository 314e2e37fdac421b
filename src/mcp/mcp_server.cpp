#include "mcp/mcp_server.h"

#include "mcp/profile/codex_state.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <algorithm>
#include <array>

#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::mcp {
namespace {

// Oldest first. A client that asks for another is offered the last.
constexpr std::array<std::string_view, 4> kVersions{"2024-11-05", "2025-03-26", "2025-06-18",
                                                    "2025-11-25"};
constexpr std::size_t kMaxCalls = 64;

constexpr std::string_view kWorkerError = "worker error: worker sandbox error: ";
constexpr std::string_view kMissing =
    "--sandbox inherit-codex (or its inherit alias) requires Codex per-tool-call sandbox metadata "
    "in _meta[\"codex/sandbox-state-meta\"]; Claude Code and other generic MCP clients do not "
    "provide that metadata, so use an explicit mode such as --sandbox workspace-write with those "
    "clients";

json::object take_object(const json::object& from, std::string_view name) {
  const json::value* found = from.if_contains(name);
  return found != nullptr && found->is_object() ? found->as_object() : json::object();
}

}  // namespace

bool is_known_version(std::string_view version) {
  return std::ranges::find(kVersions, version) != kVersions.end();
}

Server::Server(asio::io_context& loop, ServerSettings settings, Send send, Unanswered unanswered)
    : loop_(loop),
      settings_(std::move(settings)),
      send_(std::move(send)),
      unanswered_(std::move(unanswered)),
      bundles_(settings_.quotas),
      boxes_(loop, settings_.box) {}

Result<void> Server::open_log() {
  if (settings_.debug_directory.empty()) return {};
  if (::mkdir(settings_.debug_directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail_os(errno, "make {}", settings_.debug_directory);
  }
  TRY(log_, observe::Audit::open(
                fmt::format("{}/events-{}.jsonl", settings_.debug_directory, ::getpid())));
  log("startup", {{"interpreter", to_text(settings_.language)}, {"cwd", settings_.cwd}});
  return {};
}

void Server::log(std::string_view event, json::object fields) {
  if (log_.is_open()) (void)log_.write(event, std::move(fields));  // a full disk stops no session
}

void Server::take_line(std::string_view line) {
  std::visit([this](const auto& message) { take(message); }, parse_message(line));
}

void Server::refuse_long_line() {
  send_(error_line(nullptr, kInvalidRequest, "the line is too long"));
}

void Server::take(const Malformed& malformed) {
  send_(error_line(malformed.id, malformed.code, malformed.message));
}

void Server::take(const Answer& /*answer*/) {}

void Server::take(const Request& request) {
  if (request.method == "initialize") {
    return send_(result_line(request.id, initialize(request.params)));
  }
  if (request.method == "ping") return send_(result_line(request.id, json::object()));
  if (!is_initialized_) {
    return send_(error_line(request.id, kInvalidRequest, "the first request is initialize"));
  }
  if (request.method == "tools/list") {
    return send_(result_line(request.id, json::object{{"tools", tool_list(settings_)}}));
  }
  if (request.method == "tools/call") return start_call(request);
  send_(error_line(request.id, kMethodNotFound, "there is no method " + request.method));
}

void Server::take(const Notification& notification) {
  if (notification.method != "notifications/cancelled") return;
  const json::value* id = notification.params.if_contains("requestId");
  if (id == nullptr) return;
  const auto found = calls_.find(json::serialize(*id));
  if (found == calls_.end()) return;  // it was answered meanwhile
  *found->second.is_cancelled = true;
  if (found->second.repl) found->second.repl->wake();
}

json::object Server::initialize(const json::object& params) {
  is_initialized_ = true;
  std::string_view version = kVersions.back();
  const json::value* asked = params.if_contains("protocolVersion");
  if (asked != nullptr && asked->is_string()) {
    const auto found = std::ranges::find(kVersions, std::string_view(asked->as_string()));
    if (found != kVersions.end()) version = *found;
  }
  json::object capabilities{{"tools", json::object()}};
  if (settings_.mode.mode == Mode::Inherit) {
    json::object state{{"version", "1.0.0"}};
    capabilities["experimental"] = json::object{{kStateMeta, std::move(state)}};
  }
  return {{"protocolVersion", version},
          {"capabilities", std::move(capabilities)},
          {"serverInfo", json::object{{"name", "glovebox"}, {"version", settings_.version}}}};
}

CallSandbox Server::sandbox_of(const json::object& meta) const {
  CallSandbox sandbox;
  if (settings_.mode.mode != Mode::Inherit) {
    sandbox.state = CallSandbox::State::Known;
    sandbox.profile = make_profile(settings_.mode, settings_.cwd);
    return sandbox;
  }
  auto sent = read_codex_state(meta, settings_.external);
  if (!sent) {
    sandbox.state = CallSandbox::State::Unusable;
    sandbox.problem = fmt::format("{}{}", kWorkerError, sent.error().message);
    return sandbox;
  }
  std::optional<Profile> profile = *std::move(sent);
  if (!profile) {
    sandbox.problem = fmt::format("{}{}", kWorkerError, kMissing);
    return sandbox;
  }
  sandbox.state = CallSandbox::State::Unusable;
  auto refined = refine(*std::move(profile), settings_.mode.refinements);
  if (!refined) {
    sandbox.problem = fmt::format("{}{}", kWorkerError, refined.error().message);
    return sandbox;
  }
  sandbox.state = CallSandbox::State::Known;
  sandbox.profile = *std::move(refined);
  return sandbox;
}

std::function<void(double, std::string)> Server::progress_of(const json::object& meta) {
  const json::value* token = meta.if_contains("progressToken");
  const bool is_token =
      token != nullptr && (token->is_string() || token->is_int64() || token->is_uint64());
  if (!is_token) return {};
  return [this, token = *token](double seconds, const std::string& line) {
    json::object params{{"progressToken", token}, {"progress", seconds}};
    if (!line.empty()) params["message"] = line;
    send_(notification_line("notifications/progress", std::move(params)));
  };
}

void Server::start_call(const Request& request) {
  const json::value* name = request.params.if_contains("name");
  const json::value* arguments = request.params.if_contains("arguments");
  if (name == nullptr || !name->is_string()) {
    return send_(error_line(request.id, kInvalidParams, "name must be a string"));
  }
  if (arguments != nullptr && !arguments->is_object() && !arguments->is_null()) {
    return send_(error_line(request.id, kInvalidParams, "arguments must be an object"));
  }
  const std::string key = json::serialize(request.id);
  if (calls_.contains(key)) {
    return send_(error_line(request.id, kInvalidRequest, "a call with this id is under way"));
  }
  if (calls_.size() >= kMaxCalls) {
    return send_(error_line(request.id, kInternalError, "too many calls at a time"));
  }
  ToolCall call;
  call.arguments = take_object(request.params, "arguments");
  call.meta = take_object(request.params, "_meta");
  call.sandbox = sandbox_of(call.meta);
  call.progress = progress_of(call.meta);
  call.is_cancelled = std::make_shared<bool>(false);
  log("tool_call_begin",
      {{"id", request.id}, {"name", *name}, {"arguments", call.arguments}, {"meta", call.meta}});
  calls_.emplace(key, Running{call.is_cancelled, current()});
  asio::co_spawn(loop_, carry_call(request.id, std::string(name->as_string()), std::move(call)),
                 asio::detached);
}

asio::awaitable<void> Server::carry_call(json::value id, std::string name, ToolCall call) {
  const std::shared_ptr<bool> is_cancelled = call.is_cancelled;
  std::string line;
  try {
    ToolResult result = co_await call_tool(name, std::move(call));
    if (auto* reply = std::get_if<ToolReply>(&result)) {
      log("tool_call_end", {{"id", id}, {"isError", reply->is_error}});
      line = result_line(
          id, json::object{{"content", std::move(reply->content)}, {"isError", reply->is_error}});
    } else {
      line = error_line(id, kInvalidParams, std::get<BadArguments>(result).sentence);
    }
  } catch (const Bug& bug) {
    line = error_line(id, kInternalError, "a bug in glovebox: " + bug.message);
  } catch (const std::exception& problem) {
    line = error_line(id, kInternalError, fmt::format("a bug in glovebox: {}", problem.what()));
  }
  calls_.erase(json::serialize(id));
  if (!*is_cancelled) {
    send_(std::move(line));
  } else if (unanswered_) {
    unanswered_(id);
  }
}

std::shared_ptr<Repl> Server::current() {
  std::shared_ptr<Repl>& repl = sessions_[current_];
  if (!repl) repl = make_repl();
  return repl;
}

std::shared_ptr<Repl> Server::make_repl() {
  return std::make_shared<Repl>(loop_, boxes_, bundles_, settings_.language, settings_.output);
}

std::size_t Server::boxes() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      sessions_, [](const auto& one) { return one.second->box() != nullptr; }));
}

bool Server::is_busy() const {
  return !calls_.empty() || std::ranges::any_of(sessions_, [](const auto& one) {
    return one.second->phase() == Phase::Pending;
  });
}

asio::awaitable<void> Server::stop() {
  const auto sessions = sessions_;
  for (const auto& [name, repl] : sessions) co_await repl->end();
  co_await boxes_.stop();
}

}  // namespace glovebox::mcp
