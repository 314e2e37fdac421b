// The tool `session`: several sessions with names, forks of them, and sessions as files.
#include "async/co_try.h"
#include "mcp/mcp_server.h"

#include <boost/json/serialize.hpp>

namespace glovebox::mcp {
namespace {

constexpr std::size_t kMaxSessions = 16;

constexpr std::string_view kSessionSchema = R"({
  "type": "object", "additionalProperties": false,
  "properties": {
    "action": {"type": "string", "enum": ["list", "use", "close"]},
    "name": {"type": "string", "description": "use, close: which; one that is not there is made"}},
  "required": ["action"]})";
constexpr std::string_view kForkingSchema = R"({
  "type": "object", "additionalProperties": false,
  "properties": {
    "action": {"type": "string", "enum": ["list", "use", "close", "fork"]},
    "name": {"type": "string", "description": "use, close: which; one that is not there is made. fork: of the new session"},
    "count": {"type": "integer", "minimum": 1, "maximum": 16, "description": "fork: so many, with -1, -2, ... behind the name"},
    "force": {"type": "boolean", "description": "fork: also when the current session's interpreter ends with it"}},
  "required": ["action"]})";
constexpr std::string_view kKeepingSchema = R"({
  "type": "object", "additionalProperties": false,
  "properties": {
    "action": {"type": "string", "enum": ["list", "use", "close", "fork", "checkpoint", "checkpoints", "restore"]},
    "name": {"type": "string", "description": "use, close: which; one that is not there is made. fork, restore: of the new session"},
    "checkpoint": {"type": "string", "description": "checkpoint, restore: a name of letters, digits, '-', '_' and '.'"},
    "count": {"type": "integer", "minimum": 1, "maximum": 16, "description": "fork: so many, with -1, -2, ... behind the name"},
    "force": {"type": "boolean", "description": "fork: also when the current session's interpreter ends with it"}},
  "required": ["action"]})";

constexpr std::string_view kSessions =
    "Several sessions with names: list them, choose the one that the other tools use, close one.";
constexpr std::string_view kForking =
    " fork: new sessions that begin with the files of the current one and share nothing with it "
    "from then on; names of the interpreter are not taken along.";
constexpr std::string_view kKeeping =
    " checkpoint: keep the current session's files under a name, for a later restore into a new "
    "session, also by another server; checkpoints: list them.";

std::string_view phase_text(Phase phase) {
  switch (phase) {
    case Phase::None: return "not started";
    case Phase::Idle:
    case Phase::Settled:
    case Phase::Missed: return "idle";
    case Phase::Waiting: return "waiting for input";
    case Phase::Pending: return "busy";
    case Phase::Ended: return "ended";
  }
  return "not started";
}

// One child has the name itself; of several each has a number behind it.
std::vector<std::string> child_names(const SessionArguments& arguments) {
  if (arguments.count == 1) return {arguments.name};
  std::vector<std::string> names;
  for (std::uint64_t i = 1; i <= arguments.count; ++i) {
    names.push_back(fmt::format("{}-{}", arguments.name, i));
  }
  return names;
}

Result<void> refuse_state(const ServerSettings& settings, SessionArguments::Action action) {
  using Action = SessionArguments::Action;
  if (action == Action::Fork && settings.box.writes != Writes::Layered) {
    return fail(Code::Unsupported,
                "sessions write into the workspace itself, so there is nothing to fork: the server "
                "was started without --layered");
  }
  const bool is_about_files =
      action == Action::Checkpoint || action == Action::Checkpoints || action == Action::Restore;
  if (is_about_files && !settings.box.checkpoints) {
    return fail(Code::Denied, "the server was started without --checkpoint-dir");
  }
  return {};
}

}  // namespace

json::object describe_session_tool(const ServerSettings& settings) {
  if (settings.box.writes != Writes::Layered)
    return describe_tool("session", kSessions, kSessionSchema, {});
  const bool keeps = settings.box.checkpoints.has_value();
  return describe_tool("session", fmt::format("{}{}{}", kSessions, kForking, keeps ? kKeeping : ""),
                       keeps ? kKeepingSchema : kForkingSchema, {});
}

json::array Server::session_list() const {
  json::array list;
  for (const auto& [name, repl] : sessions_) {
    list.push_back(json::object{
        {"name", name}, {"state", phase_text(repl->phase())}, {"current", name == current_}});
  }
  return list;
}

Result<void> Server::use_session(const std::string& name) {
  if (!sessions_.contains(name) && sessions_.size() >= kMaxSessions) {
    return fail(Code::Exhausted, "there are {} sessions; close one", kMaxSessions);
  }
  current_ = name;
  (void)current();  // makes it
  return {};
}

asio::awaitable<Result<void>> Server::close_session(std::string name) {
  const auto found = sessions_.find(name);
  if (found == sessions_.end()) {
    co_return fail(Code::NotFound, "there is no session '{}'", name);
  }
  const std::shared_ptr<Repl> repl = found->second;
  sessions_.erase(found);
  if (current_ == name) current_ = "main";
  co_await repl->end();
  co_return Result<void>();
}

Result<void> Server::check_new_names(const std::vector<std::string>& names) const {
  if (sessions_.size() + names.size() > kMaxSessions) {
    return fail(Code::Exhausted, "there would be more than {} sessions; close some", kMaxSessions);
  }
  for (const std::string& name : names) {
    if (sessions_.contains(name))
      return fail(Code::Denied, "there is a session '{}' already", name);
  }
  return {};
}

asio::awaitable<Result<void>> Server::add_session(std::string name, std::unique_ptr<Box> box) {
  const std::vector<std::string> names{name};
  // Other calls went on while the box was made.
  if (auto free = check_new_names(names); !free) {
    co_await boxes_.end(std::move(box));
    co_return free;
  }
  const std::shared_ptr<Repl> repl = make_repl();
  sessions_.emplace(name, repl);
  auto started = co_await repl->adopt(std::move(box));
  const auto found = sessions_.find(name);
  if (!started && found != sessions_.end() && found->second == repl) sessions_.erase(found);
  co_return started;
}

asio::awaitable<Result<void>> Server::fork_session(SessionArguments arguments,
                                                   CallSandbox sandbox) {
  if (arguments.count == 0 || arguments.count > kMaxSessions) {
    co_return fail(Code::Invalid, "count must be 1 to {}", kMaxSessions);
  }
  const std::vector<std::string> names = child_names(arguments);
  CO_TRY_VOID(check_new_names(names));
  const auto running =
      arguments.is_forced ? session::WhileRunning::End : session::WhileRunning::Refuse;
  const std::shared_ptr<Repl> parent = current();
  CO_TRY(auto boxes, co_await parent->fork(std::move(sandbox), names.size(), running));
  Result<void> all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto added = co_await add_session(names[i], std::move(boxes[i]));
    if (!added) all = fail(added.error().code, "'{}': {}", names[i], added.error().message);
  }
  co_return all;
}

asio::awaitable<Result<void>> Server::restore_session(SessionArguments arguments,
                                                      CallSandbox sandbox) {
  if (sandbox.state != CallSandbox::State::Known) {
    co_return fail(Code::Denied, "{}", sandbox.problem);
  }
  const std::vector<std::string> names{arguments.name};
  CO_TRY_VOID(check_new_names(names));
  CO_TRY(auto box,
         co_await boxes_.restore(std::move(arguments.checkpoint), std::move(sandbox.profile)));
  co_return co_await add_session(std::move(arguments.name), std::move(box));
}

asio::awaitable<ToolResult> Server::checkpoint_session(std::string name, CallSandbox sandbox) {
  const std::shared_ptr<Repl> repl = current();
  const auto size = co_await repl->checkpoint(std::move(sandbox), name);
  if (!size) co_return error_reply(size.error().message);
  co_return text_reply(json::serialize(json::object{{"checkpoint", name}, {"bytes", *size}}));
}

asio::awaitable<ToolResult> Server::call_session(ToolCall call) {
  using Action = SessionArguments::Action;
  auto arguments = read_session_arguments(call.arguments);
  if (!arguments) co_return BadArguments{arguments.error().message};
  Result<void> done = refuse_state(settings_, arguments->action);
  if (!done) co_return error_reply(done.error().message);
  switch (arguments->action) {
    case Action::List: break;
    case Action::Use: done = use_session(arguments->name); break;
    case Action::Close: done = co_await close_session(arguments->name); break;
    case Action::Fork:
      done = co_await fork_session(*std::move(arguments), std::move(call.sandbox));
      break;
    case Action::Restore:
      done = co_await restore_session(*std::move(arguments), std::move(call.sandbox));
      break;
    case Action::Checkpoint:
      co_return co_await checkpoint_session(arguments->checkpoint, std::move(call.sandbox));
    case Action::Checkpoints: {
      const auto& place = settings_.box.checkpoints;
      GLOVEBOX_CHECK(place.has_value());
      const auto kept = list_checkpoints(*place);
      if (!kept) co_return error_reply(kept.error().message);
      json::array list;
      for (const KeptCheckpoint& each : *kept) {
        list.push_back(json::object{{"checkpoint", each.name}, {"bytes", each.size}});
      }
      co_return text_reply(json::serialize(list));
    }
  }
  if (!done) co_return error_reply(done.error().message);
  co_return text_reply(json::serialize(session_list()));
}

}  // namespace glovebox::mcp
