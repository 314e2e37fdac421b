#include "mcp/tool_arguments.h"

#include "mcp/repl/checkpoint_place.h"

#include <array>

namespace glovebox::mcp {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr milliseconds kLongest = std::chrono::hours(24);
constexpr std::size_t kMaxName = 64;

// Whole numbers arrive as integers, or, from some clients, as 1000.0.
Result<milliseconds> read_timeout(const json::value& value) {
  boost::system::error_code not_whole;
  const auto number = value.to_number<std::int64_t>(not_whole);
  if (not_whole || number < 0 || number > kLongest.count()) {
    return fail(Code::Invalid, "timeout_ms must be a whole number from 0 to {}", kLongest.count());
  }
  return milliseconds(number);
}

Result<std::string> optional_text(JsonFields& fields, std::string_view name) {
  const json::value* value = fields.find(name);
  if (value == nullptr || value->is_null()) return std::string();
  TRY(const std::string_view text, json_text(*value, name));
  return std::string(text);
}

Result<std::vector<std::string>> optional_list(JsonFields& fields, std::string_view name) {
  std::vector<std::string> list;
  const json::value* value = fields.find(name);
  if (value == nullptr || value->is_null()) return list;
  if (!value->is_array()) return fail(Code::Invalid, "{} must be an array of strings", name);
  for (const json::value& each : value->as_array()) {
    TRY(const std::string_view text, json_text(each, name));
    list.emplace_back(text);
  }
  return list;
}

Result<JsonFields> fields_of(const json::value& value) {
  return JsonFields::of(value, "arguments");
}

Result<SessionArguments::Action> read_session_action(std::string_view word) {
  using Action = SessionArguments::Action;
  constexpr std::array<std::pair<std::string_view, Action>, 7> kActions{
      {{"list", Action::List},
       {"use", Action::Use},
       {"close", Action::Close},
       {"fork", Action::Fork},
       {"checkpoint", Action::Checkpoint},
       {"checkpoints", Action::Checkpoints},
       {"restore", Action::Restore}}};
  for (const auto& [name, action] : kActions) {
    if (name == word) return action;
  }
  return fail(Code::Invalid,
              "action must be list, use, close, fork, checkpoint, checkpoints or restore");
}

}  // namespace

Result<ReplArguments> read_repl_arguments(const json::object& object) {
  const json::value value = object;
  TRY(JsonFields fields, fields_of(value));
  ReplArguments arguments;
  TRY(const std::string_view input, fields.text("input"));
  arguments.input = input;
  const json::value* timeout = fields.find("timeout_ms");
  if (timeout != nullptr && !timeout->is_null()) {
    TRY(arguments.timeout, read_timeout(*timeout));
  }
  TRY_VOID(fields.finish());
  return arguments;
}

Result<FilesArguments> read_files_arguments(const json::object& object) {
  using Action = FilesArguments::Action;
  const json::value value = object;
  TRY(JsonFields fields, fields_of(value));
  FilesArguments arguments;
  TRY(const std::string_view action, fields.text("action"));
  if (action != "read" && action != "write" && action != "list" && action != "search") {
    return fail(Code::Invalid, "action must be read, write, list or search");
  }
  arguments.action = action == "read"    ? Action::Read
                     : action == "write" ? Action::Write
                     : action == "list"  ? Action::List
                                         : Action::Search;
  TRY(const std::string_view path, fields.text("path"));
  arguments.path = path;
  TRY(arguments.content, optional_text(fields, "content"));
  TRY(arguments.pattern, optional_text(fields, "pattern"));
  if (const json::value* offset = fields.find("offset")) {
    TRY(arguments.offset, json_integer(*offset, "offset"));
  }
  if (const json::value* limit = fields.find("limit")) {
    TRY(arguments.limit, json_integer(*limit, "limit"));
  }
  TRY_VOID(fields.finish());
  if (arguments.action == Action::Search && arguments.pattern.empty()) {
    return fail(Code::Invalid, "search needs a pattern");
  }
  return arguments;
}

Result<CommitArguments> read_commit_arguments(const json::object& object) {
  const json::value value = object;
  TRY(JsonFields fields, fields_of(value));
  CommitArguments arguments;
  TRY(arguments.only, optional_list(fields, "only"));
  TRY(arguments.reject, optional_list(fields, "reject"));
  if (const json::value* dry = fields.find("dry_run")) {
    if (!dry->is_bool()) return fail(Code::Invalid, "dry_run must be true or false");
    arguments.is_dry_run = dry->as_bool();
  }
  TRY_VOID(fields.finish());
  return arguments;
}

Result<SessionArguments> read_session_arguments(const json::object& object) {
  using Action = SessionArguments::Action;
  const json::value value = object;
  TRY(JsonFields fields, fields_of(value));
  SessionArguments arguments;
  TRY(const std::string_view word, fields.text("action"));
  TRY(arguments.action, read_session_action(word));
  TRY(arguments.name, optional_text(fields, "name"));
  TRY(arguments.checkpoint, optional_text(fields, "checkpoint"));
  if (const json::value* count = fields.find("count")) {
    TRY(arguments.count, json_integer(*count, "count"));
  }
  if (const json::value* force = fields.find("force")) {
    if (!force->is_bool()) return fail(Code::Invalid, "force must be true or false");
    arguments.is_forced = force->as_bool();
  }
  TRY_VOID(fields.finish());
  const Action action = arguments.action;
  const bool is_named = action == Action::Use || action == Action::Close ||
                        action == Action::Fork || action == Action::Restore;
  if (is_named && (arguments.name.empty() || arguments.name.size() > kMaxName)) {
    return fail(Code::Invalid, "name must have 1 to {} bytes", kMaxName);
  }
  if (action == Action::Checkpoint || action == Action::Restore) {
    TRY_VOID(check_checkpoint_name(arguments.checkpoint));
  }
  return arguments;
}

Result<void> read_no_arguments(const json::object& object) {
  const json::value value = object;
  TRY(const JsonFields fields, fields_of(value));
  return fields.finish();
}

}  // namespace glovebox::mcp
