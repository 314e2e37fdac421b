// The MCP server: messages in, messages out, and the tools between.
//
// Every call is a coroutine of its own on one loop, so none keeps another waiting. What a call may
// do is decided by the sandbox that holds for it (an explicit mode, or what the client sent with
// this very call) and by nothing else in the message.
#pragma once

#include "base/result.h"
#include "mcp/profile/codex_state.h"
#include "mcp/profile/modes.h"
#include "mcp/repl/repl.h"
#include "mcp/repl/repl_box.h"
#include "mcp/rpc.h"
#include "mcp/tool_arguments.h"
#include "observe/log.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace glovebox::mcp {

struct ServerSettings {
  BoxSettings box;
  ModeChoice mode;
  External external = External::ReadOnly;  // with Mode::Inherit
  Language language = Language::Python;
  std::string cwd;
  std::string version;  // of the product
  bool allow_commit = false;
  BundleStore::Quotas quotas;
  OutputForm output;
  std::string debug_directory;  // empty: no log
};

// One call of a tool, on its way.
struct ToolCall {
  json::object arguments;
  json::object meta;
  CallSandbox sandbox;
  std::function<void(double, std::string)> progress;
  std::shared_ptr<bool> is_cancelled;
};

// Bad arguments: a JSON-RPC error, not an answer of the tool.
struct BadArguments {
  std::string sentence;
};
using ToolResult = std::variant<ToolReply, BadArguments>;

class Server {
 public:
  using Send = std::function<void(std::string)>;
  using Unanswered = std::function<void(const json::value& id)>;

  // `send` takes whole lines, in their order. `unanswered` hears of calls that are over and get no
  // answer, because the client cancelled them.
  Server(asio::io_context& loop, ServerSettings settings, Send send, Unanswered unanswered = {});

  Result<void> open_log();
  // One line from the client. What is to be answered later is, through `send`.
  void take_line(std::string_view line);
  void refuse_long_line();
  // Calls that have not been answered.
  std::size_t under_way() const { return calls_.size(); }
  // Sessions that have a box.
  std::size_t boxes() const;
  // Whether a call, or code that a call left running, is under way.
  bool is_busy() const;
  // Ends every box.
  asio::awaitable<void> stop();

 private:
  struct Running {
    std::shared_ptr<bool> is_cancelled;
    std::shared_ptr<Repl> repl;
  };

  void take(const Request& request);
  void take(const Notification& notification);
  void take(const Malformed& malformed);
  void take(const Answer& answer);
  json::object initialize(const json::object& params);
  void start_call(const Request& request);
  asio::awaitable<void> carry_call(json::value id, std::string name, ToolCall call);
  CallSandbox sandbox_of(const json::object& meta) const;
  std::function<void(double, std::string)> progress_of(const json::object& meta);
  void log(std::string_view event, json::object fields);

  // The tools (tools.cpp, file_tool.cpp, session_tool.cpp).
  asio::awaitable<ToolResult> call_tool(const std::string& name, ToolCall call);
  asio::awaitable<ToolResult> call_repl(ToolCall call);
  asio::awaitable<ToolResult> call_files(ToolCall call);
  asio::awaitable<ToolResult> call_changes(ToolCall call);
  asio::awaitable<ToolResult> call_commit(ToolCall call);
  asio::awaitable<ToolResult> call_sandbox(ToolCall call);
  asio::awaitable<ToolResult> call_session(ToolCall call);
  // The actions of call_session (session_tool.cpp); the sentence of a refusal, else nothing.
  asio::awaitable<Result<void>> close_session(std::string name);
  asio::awaitable<Result<void>> fork_session(SessionArguments arguments, CallSandbox sandbox);
  asio::awaitable<Result<void>> restore_session(SessionArguments arguments, CallSandbox sandbox);
  asio::awaitable<ToolResult> checkpoint_session(std::string name, CallSandbox sandbox);
  Result<void> use_session(const std::string& name);
  Result<void> check_new_names(const std::vector<std::string>& names) const;
  // A session for a box that was made for it.
  asio::awaitable<Result<void>> add_session(std::string name, std::unique_ptr<Box> box);
  json::array session_list() const;
  std::shared_ptr<Repl> make_repl();
  std::shared_ptr<Repl> current();

  asio::io_context& loop_;
  ServerSettings settings_;
  Send send_;
  Unanswered unanswered_;
  BundleStore bundles_;
  BoxMaker boxes_;
  std::map<std::string, std::shared_ptr<Repl>, std::less<>> sessions_;
  std::string current_ = "main";
  std::map<std::string, Running, std::less<>> calls_;  // by the id, as JSON
  bool is_initialized_ = false;
  observe::Audit log_;
};

// Whether a version of the protocol is spoken here.
bool is_known_version(std::string_view version);

struct ToolHints {
  bool is_read_only = false;
  bool is_destructive = false;
};
// One tool as tools/list says it. `schema` is JSON.
json::object describe_tool(std::string_view name, std::string_view description,
                           std::string_view schema, ToolHints hints);
json::object describe_session_tool(const ServerSettings& settings);

// The `tools` of tools/list.
json::array tool_list(const ServerSettings& settings);

// The session that a server offers on standard input and output, until the input ends.
Result<void> serve_stdio(ServerSettings settings);

}  // namespace glovebox::mcp
