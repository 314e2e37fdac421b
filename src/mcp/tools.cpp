// The tools, except files (file_tool.cpp) and session (session_tool.cpp).
#include "base/file.h"
#include "mcp/mcp_server.h"
#include "mcp/tool_arguments.h"
#include "workspace/commit/commit.h"

#include <boost/json/serialize.hpp>

namespace glovebox::mcp {
namespace {

constexpr std::size_t kMaxDiff = std::size_t{256} << 10;

json::array guarantees(const std::vector<plan::Guarantee>& list) {
  json::array array;
  for (const plan::Guarantee& each : list) {
    array.push_back(json::object{{"what", each.name}, {"by", each.by}});
  }
  return array;
}

}  // namespace

asio::awaitable<ToolResult> Server::call_tool(const std::string& name, ToolCall call) {
  const bool has_layers = settings_.box.writes == Writes::Layered;
  if (name == "repl") co_return co_await call_repl(std::move(call));
  if (name == "files") co_return co_await call_files(std::move(call));
  if (name == "sandbox") co_return co_await call_sandbox(std::move(call));
  if (name == "session") co_return co_await call_session(std::move(call));
  if (name == "changes" && has_layers) co_return co_await call_changes(std::move(call));
  if (name == "commit" && has_layers && settings_.allow_commit) {
    co_return co_await call_commit(std::move(call));
  }
  co_return BadArguments{"there is no tool " + name};
}

asio::awaitable<ToolResult> Server::call_repl(ToolCall call) {
  auto arguments = read_repl_arguments(call.arguments);
  if (!arguments) co_return BadArguments{arguments.error().message};
  ReplCall one;
  one.input = std::move(arguments->input);
  one.timeout = arguments->timeout;
  one.sandbox = std::move(call.sandbox);
  one.progress = std::move(call.progress);
  one.is_cancelled = call.is_cancelled;
  const std::shared_ptr<Repl> repl = current();
  co_return co_await repl->call(std::move(one));
}

asio::awaitable<ToolResult> Server::call_sandbox(ToolCall call) {
  if (auto read = read_no_arguments(call.arguments); !read) {
    co_return BadArguments{read.error().message};
  }
  const std::shared_ptr<Repl> repl = current();
  json::object told;
  const Box* box = repl->box();
  if (call.sandbox.state == CallSandbox::State::Known) {
    told["sandbox"] = to_json(call.sandbox.profile);
  }
  if (box != nullptr) {
    told["session_has_this_sandbox"] = call.sandbox.state == CallSandbox::State::Known &&
                                       boxes_.has_sandbox(*box, call.sandbox.profile);
    if (box->lacks_network) {
      told["note"] = "the sandbox allows the network, and this build cannot give it to a box";
    }
    json::array denied;
    for (const std::string& line : boxes_.denials_of(box->id)) denied.emplace_back(line);
    told["denied"] = std::move(denied);
    const auto report = boxes_.manager()->report(box->id);
    if (report) {
      told["rules"] = guarantees(report->terms);
      told["enforced"] = guarantees(report->guarantees);
      if (!report->info.not_enforced.empty()) {
        told["not_enforced"] = guarantees(report->info.not_enforced);
      }
    }
  } else if (call.sandbox.state != CallSandbox::State::Known) {
    co_return error_reply(call.sandbox.problem);
  }
  co_return text_reply(json::serialize(told));
}

asio::awaitable<ToolResult> Server::call_changes(ToolCall call) {
  if (auto read = read_no_arguments(call.arguments); !read) {
    co_return BadArguments{read.error().message};
  }
  const std::shared_ptr<Repl> repl = current();
  Box* box = repl->box();
  if (box == nullptr) co_return error_reply("the session has not been started");
  const std::string id = box->id;
  const auto diff =
      co_await boxes_.manager()->diff(id, session::LayerChoice(), session::DiffForm::Unified);
  if (!diff) co_return error_reply(diff.error().message);
  std::string text(std::min<std::uint64_t>(diff->size, kMaxDiff), '\0');
  const ssize_t size = ::pread(diff->file.get(), text.data(), text.size(), 0);
  if (size < 0) co_return error_reply("the diff could not be read");
  text.resize(static_cast<std::size_t>(size));
  Utf8Cleaner cleaner;
  text = cleaner.feed(text) + cleaner.finish();
  if (diff->size > kMaxDiff) {
    text += fmt::format("\n...[the first {} of {} bytes]...\n", kMaxDiff, diff->size);
  }
  co_return text_reply(text.empty() ? "no changes" : text);
}

asio::awaitable<ToolResult> Server::call_commit(ToolCall call) {
  auto arguments = read_commit_arguments(call.arguments);
  if (!arguments) co_return BadArguments{arguments.error().message};
  const std::shared_ptr<Repl> repl = current();
  const auto opened = co_await repl->open_box(call.sandbox);
  if (!opened) co_return error_reply(opened.error().message);
  session::CommitRequest request;
  request.selection.only = std::move(arguments->only);
  request.selection.reject = std::move(arguments->reject);
  request.act = arguments->is_dry_run ? workspace::Act::DryRun : workspace::Act::Apply;
  const std::string id = (*opened)->id;
  const auto result = co_await boxes_.manager()->commit(id, std::move(request));
  if (!result) co_return error_reply(result.error().message);
  std::string text;
  for (const workspace::Conflict& each : result->conflicts) text += to_text(each) + "\n";
  for (const workspace::Held& each : result->held) text += to_text(each) + "\n";
  if (result->is_refused()) {
    co_return error_reply(text + "nothing was taken over");
  }
  co_return text_reply(fmt::format(
      "{} {}", result->applied.size(),
      arguments->is_dry_run ? "changes would be taken over" : "changes were taken over"));
}

}  // namespace glovebox::mcp
