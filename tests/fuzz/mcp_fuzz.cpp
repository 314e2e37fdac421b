// The edge of the MCP server: lines from the client, payloads about its sandbox, frames from a
// worker in the box. Whatever the bytes, there is an answer, and what is understood means the same
// when it is written down and read again.
#include "mcp/profile/codex_state.h"
#include "mcp/repl/repl_output.h"
#include "mcp/rpc.h"
#include "python/channel/python_message.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

using namespace glovebox::mcp;

void check(bool holds) {
  if (!holds) std::abort();
}

void take_line(std::string_view line) {
  const Message message = parse_message(line);
  if (const auto* request = std::get_if<Request>(&message)) {
    check(request->id.is_string() || request->id.is_int64() || request->id.is_uint64());
    const auto state = read_codex_state(request->params);
    if (!state || !*state) return;
    Profile again = **state;
    normalize(again);
    check(again == **state);
    check(again.cwd.starts_with('/'));
    for (const PathEntry& entry : again.entries) check(entry.path.starts_with('/'));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  LineSplitter lines(4096);
  lines.feed(bytes, take_line, [] {});
  glovebox::session::ReplFrameReader frames;
  frames.feed(bytes);
  while (true) {
    const auto frame = frames.next();
    if (!frame || !*frame) break;
  }
  Utf8Cleaner cleaner;
  const std::string text = cleaner.feed(bytes) + cleaner.finish();
  Utf8Cleaner second;
  check(second.feed(text) == text && second.finish().empty());
  return 0;
}
