#include "mcp/tool_arguments.h"

#include <algorithm>
#include <cmath>

namespace glovebox::mcp {
namespace {

namespace json = boost::json;
using authority::Fields;
using std::chrono::milliseconds;

constexpr milliseconds kLongest = std::chrono::hours(24);
constexpr std::size_t kMaxName = 64;

// Numbers arrive as integers, or, from some clients, as 1000.0.
Result<milliseconds> read_timeout(const json::value& value) {
  double number = -1;
  if (value.is_int64()) number = static_cast<double>(value.as_int64());
  if (value.is_uint64()) number = static_cast<double>(value.as_uint64());
  if (value.is_double()) number = value.as_double();
  if (!std::isfinite(number) || number < 0) {
    return fail(Code::Invalid, "timeout_ms must be a number that is not negative");
  }
  const double most = static_cast<double>(kLongest.count());
  return milliseconds(static_cast<std::int64_t>(std::min(number, most)));
}

Result<std::string> optional_text(Fields& fields, std::string_view name) {
  const json::value* value = fields.find(name);
  if (value == nullptr || value->is_null()) return std::string();
  TRY(const std::string_view text, authority::json_text(*value, name));
  return std::string(text);
}

Result<std::vector<std::string>> optional_list(Fields& fields, std::string_view name) {
  std::vector<std::string> list;
  const json::value* value = fields.find(name);
  if (value == nullptr || value->is_null()) return list;
  if (!value->is_array()) return fail(Code::Invalid, "{} must be an array of strings", name);
  for (const json::value& each : value->as_array()) {
    TRY(const std::string_view text, authority::json_text(each, name));
    list.emplace_back(text);
  }
  return list;
}

Result<Fields> fields_of(const json::value& value) { return Fields::of(value, "arguments"); }

}  // namespace

Result<ReplArguments> read_repl_arguments(const json::object& object) {
  const json::value value = object;
  TRY(Fields fields, fields_of(value));
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
  TRY(Fields fields, fields_of(value));
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
    TRY(arguments.offset, authority::json_integer(*offset, "offset"));
  }
  if (const json::value* limit = fields.find("limit")) {
    TRY(arguments.limit, authority::json_integer(*limit, "limit"));
  }
  TRY_VOID(fields.finish());
  if (arguments.action == Action::Search && arguments.pattern.empty()) {
    return fail(Code::Invalid, "search needs a pattern");
  }
  return arguments;
}

Result<CommitArguments> read_commit_arguments(const json::object& object) {
  const json::value value = object;
  TRY(Fields fields, fields_of(value));
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
  TRY(Fields fields, fields_of(value));
  SessionArguments arguments;
  TRY(const std::string_view action, fields.text("action"));
  if (action != "list" && action != "use" && action != "close") {
    return fail(Code::Invalid, "action must be list, use or close");
  }
  arguments.action = action == "list"  ? Action::List
                     : action == "use" ? Action::Use
                                       : Action::Close;
  TRY(arguments.name, optional_text(fields, "name"));
  TRY_VOID(fields.finish());
  if (arguments.action != Action::List &&
      (arguments.name.empty() || arguments.name.size() > kMaxName)) {
    return fail(Code::Invalid, "name must have 1 to {} bytes", kMaxName);
  }
  return arguments;
}

Result<void> read_no_arguments(const json::object& object) {
  const json::value value = object;
  TRY(const Fields fields, fields_of(value));
  return fields.finish();
}

}  // namespace glovebox::mcp
