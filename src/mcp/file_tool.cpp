// The tool `files`: the box's own view of its files, through its agent.
#include "mcp/mcp_server.h"
#include "mcp/repl/repl.h"
#include "mcp/tool_arguments.h"
#include "session/box/file_job.h"

#include <boost/json/serialize.hpp>

#include <array>

namespace glovebox::mcp {
namespace {

using Action = FilesArguments::Action;

constexpr std::size_t kMaxRead = std::size_t{256} << 10;
constexpr std::size_t kMaxEntries = 2000;

asio::awaitable<ToolReply> read(std::shared_ptr<session::LiveSession> box, FilesArguments ask) {
  guest::StartJob job;
  job.kind = guest::JobKind::Read;
  job.path = ask.path;
  job.offset = ask.offset;
  job.limit = std::min<std::uint64_t>(ask.limit.value_or(kMaxRead), kMaxRead);
  auto started = co_await box->start_job(std::move(job));
  if (!started) co_return error_reply(started.error().message);
  const auto entry = co_await (*started)->read_entry();
  if (!entry) co_return error_reply(entry.error().message);
  std::string content;
  std::array<char, 16384> buffer{};
  while (content.size() <= kMaxRead) {
    const auto size = co_await (*started)->read(buffer);
    if (!size) co_return error_reply(size.error().message);
    if (*size == 0) break;
    content.append(buffer.data(), *size);
  }
  const auto over = co_await (*started)->finish();
  if (!over) co_return error_reply(over.error().message);
  Utf8Cleaner cleaner;
  std::string text = cleaner.feed(content) + cleaner.finish();
  ToolReply reply = text_reply(text);
  if (ask.offset + content.size() < entry->size) {
    reply.content.push_back(text_item(fmt::format("...[bytes {}-{} of {}]...", ask.offset,
                                                  ask.offset + content.size(), entry->size)));
  }
  co_return reply;
}

asio::awaitable<ToolReply> write(std::shared_ptr<session::LiveSession> box, FilesArguments ask) {
  guest::StartJob job;
  job.kind = guest::JobKind::Write;
  job.flags = guest::kParents;
  job.path = ask.path;
  auto started = co_await box->start_job(std::move(job));
  if (!started) co_return error_reply(started.error().message);
  const auto sent = co_await (*started)->write(ask.content);
  const auto over = co_await (*started)->finish();
  if (!over) co_return error_reply(over.error().message);
  if (!sent) co_return error_reply(sent.error().message);
  co_return text_reply(fmt::format("wrote {} bytes to {}", ask.content.size(), ask.path));
}

char kind_letter(guest::EntryKind kind) {
  switch (kind) {
    case guest::EntryKind::Directory: return 'd';
    case guest::EntryKind::Symlink: return 'l';
    case guest::EntryKind::File: return '-';
    default: return '?';
  }
}

asio::awaitable<ToolReply> list(std::shared_ptr<session::LiveSession> box, FilesArguments ask) {
  guest::StartJob job;
  const bool is_search = ask.action == Action::Search;
  job.kind = is_search ? guest::JobKind::Search : guest::JobKind::List;
  job.path = ask.path;
  job.target = ask.pattern;
  job.limit = ask.limit.value_or(is_search ? kMaxEntries : 1);
  const auto entries = co_await box->entries(std::move(job), kMaxEntries);
  if (!entries) co_return error_reply(entries.error().message);
  std::string text;
  for (const guest::Entry& each : *entries) {
    text += fmt::format("{} {:>10} {}\n", kind_letter(each.kind), each.size, each.path);
  }
  Utf8Cleaner cleaner;
  text = cleaner.feed(text) + cleaner.finish();
  co_return text_reply(text.empty() ? "nothing" : text);
}

}  // namespace

asio::awaitable<ToolResult> Server::call_files(ToolCall call) {
  auto arguments = read_files_arguments(call.arguments);
  if (!arguments) co_return BadArguments{arguments.error().message};
  const std::shared_ptr<Repl> repl = current();
  const auto opened = co_await repl->open_box(call.sandbox);
  if (!opened) co_return error_reply(opened.error().message);
  const std::shared_ptr<session::LiveSession> box = (*opened)->live;
  switch (arguments->action) {
    case Action::Read: co_return co_await read(box, *std::move(arguments));
    case Action::Write: co_return co_await write(box, *std::move(arguments));
    case Action::List:
    case Action::Search: break;
  }
  co_return co_await list(box, *std::move(arguments));
}

}  // namespace glovebox::mcp
