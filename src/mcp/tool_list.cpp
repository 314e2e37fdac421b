// What tools/list says.
#include "base/strict_json.h"
#include "mcp/mcp_server.h"

namespace glovebox::mcp {
namespace {

constexpr std::string_view kPython =
    "Run Python in a persistent, sandboxed session: names, imports and files in the session's "
    "temporary directory stay between calls. One call is one cell; a final expression is shown. "
    "Figures of matplotlib come back as images.\n"
    "- timeout_ms (default 60000) bounds the wait, not the work: a busy status means that the code "
    "goes on. Send an empty input to wait for more.\n"
    "- Code that waits for standard input gets the next input as its text.\n"
    "- An input that begins with U+0003 interrupts; with U+0004 it starts a fresh session. Code "
    "after the character runs then.\n";
constexpr std::string_view kBash =
    "Run bash in a persistent, sandboxed session: directory, variables and functions stay between "
    "calls. Standard input is empty.\n"
    "- timeout_ms (default 60000) bounds the wait, not the work: a busy status means that the code "
    "goes on. Send an empty input to wait for more.\n"
    "- An input that begins with U+0003 interrupts; with U+0004 it starts a fresh session. Code "
    "after the character runs then.\n";

// Where a client's own sandbox has the host's.
constexpr std::string_view kOwnPlaces =
    "- /tmp, $TMPDIR and localhost are the session's own, also where the client's sandbox allows "
    "the host's: files in the host's /tmp and servers that listen on the host's 127.0.0.1 are not "
    "there. Exchange files through the workspace.\n";

constexpr std::string_view kInBundles =
    "- Too much output is cut in the middle, with the path of the whole.";
constexpr std::string_view kInPages =
    "- Too much output comes in pages: an empty input is the next one, :help lists more commands, "
    ":q ends them.";

constexpr std::string_view kReplSchema = R"({
  "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
  "additionalProperties": false,
  "properties": {"input": {"type": "string"},
    "timeout_ms": {"type": ["integer", "null"], "format": "uint64", "minimum": 0, "maximum": 86400000, "default": null}},
  "required": ["input"]})";
constexpr std::string_view kFilesSchema = R"({
  "type": "object", "additionalProperties": false,
  "properties": {
    "action": {"type": "string", "enum": ["read", "write", "list", "search"]},
    "path": {"type": "string", "description": "As the code in the session sees it; relative paths start in the workspace"},
    "content": {"type": "string", "description": "write: the whole new content"},
    "pattern": {"type": "string", "description": "search: a glob for paths, such as **/*.py"},
    "offset": {"type": "integer", "minimum": 0, "description": "read: first byte"},
    "limit": {"type": "integer", "minimum": 1, "description": "read: bytes; list: depth; search: entries"}},
  "required": ["action", "path"]})";
constexpr std::string_view kChangesSchema = R"({
  "type": "object", "additionalProperties": false, "properties": {}})";
constexpr std::string_view kCommitSchema = R"({
  "type": "object", "additionalProperties": false,
  "properties": {
    "only": {"type": "array", "items": {"type": "string"}, "description": "Globs of paths to take over; without it, all"},
    "reject": {"type": "array", "items": {"type": "string"}, "description": "Globs of paths to leave out"},
    "dry_run": {"type": "boolean"}}})";
constexpr std::string_view kSandboxSchema = kChangesSchema;
}  // namespace

json::object describe_tool(std::string_view name, std::string_view description,
                           std::string_view schema, ToolHints hints) {
  return {{"name", name},
          {"description", description},
          {"inputSchema", parse_strict_json(schema).value()},
          {"annotations", json::object{{"readOnlyHint", hints.is_read_only},
                                       {"destructiveHint", hints.is_destructive},
                                       {"openWorldHint", false}}}};
}

json::array tool_list(const ServerSettings& settings) {
  json::array tools;
  const bool in_pages = settings.output.large == OutputForm::Large::Pages;
  const std::string repl =
      fmt::format("{}{}{}", settings.language == Language::Python ? kPython : kBash, kOwnPlaces,
                  in_pages ? kInPages : kInBundles);
  tools.push_back(describe_tool("repl", repl, kReplSchema, {}));
  tools.push_back(
      describe_tool("files",
                    "Read, write, list and search files inside the session's box, with the "
                    "rights of the code that runs there.",
                    kFilesSchema, {}));
  tools.push_back(describe_tool(
      "sandbox", "What the session's box may do, what enforces it, and what was refused.",
      kSandboxSchema, {.is_read_only = true}));
  tools.push_back(describe_session_tool(settings));
  if (settings.box.writes == Writes::Layered) {
    tools.push_back(describe_tool("changes",
                                  "What the session changed in its workspace, as a diff.",
                                  kChangesSchema, {.is_read_only = true}));
    if (settings.allow_commit) {
      tools.push_back(describe_tool("commit",
                                    "Take the session's changes over into the real workspace.",
                                    kCommitSchema, {.is_destructive = true}));
    }
  }
  return tools;
}

}  // namespace glovebox::mcp
