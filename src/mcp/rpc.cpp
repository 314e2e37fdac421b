#include "mcp/rpc.h"

#include "base/strict_json.h"
#include "base/utf8.h"

namespace glovebox::mcp {
namespace {

bool is_id(const json::value& value) {
  return value.is_string() || value.is_int64() || value.is_uint64();
}

Malformed malformed(json::value id, int code, std::string message) {
  return {std::move(id), code, std::move(message)};
}

// Absent, or an object. MCP has no other form.
bool take_params(json::object& message, json::object& params) {
  json::value* found = message.if_contains("params");
  if (found == nullptr) return true;
  if (!found->is_object()) return false;
  params = std::move(found->as_object());
  return true;
}

Message read_object(json::object& message) {
  json::value id;
  const json::value* found = message.if_contains("id");
  const bool has_id = found != nullptr;
  if (has_id && is_id(*found)) id = *found;
  const json::value* version = message.if_contains("jsonrpc");
  if (version == nullptr || !version->is_string() || version->as_string() != "2.0") {
    return malformed(id, kInvalidRequest, "jsonrpc must be \"2.0\"");
  }
  json::value* method = message.if_contains("method");
  if (method == nullptr) {
    if (has_id && (message.contains("result") || message.contains("error"))) return Answer{};
    return malformed(id, kInvalidRequest, "neither a request nor an answer");
  }
  if (!method->is_string()) return malformed(id, kInvalidRequest, "method must be a string");
  if (has_id && !is_id(*found)) {
    return malformed(nullptr, kInvalidRequest, "id must be a string or an integer");
  }
  std::string name(method->as_string());
  json::object params;
  if (!take_params(message, params)) {
    return malformed(id, kInvalidRequest, "params must be an object");
  }
  if (!has_id) return Notification{std::move(name), std::move(params)};
  return Request{std::move(id), std::move(name), std::move(params)};
}

std::string to_line(const json::object& message) {
  return to_valid_utf8(json::serialize(message)) + "\n";
}

}  // namespace

Message parse_message(std::string_view line) {
  auto parsed = parse_strict_json(line, {.max_bytes = kMaxLine, .max_depth = kMaxDepth});
  if (!parsed) return malformed(nullptr, kParseError, parsed.error().message);
  if (parsed->is_array()) {
    return malformed(nullptr, kInvalidRequest, "batches are not supported: one message a line");
  }
  if (!parsed->is_object()) {
    return malformed(nullptr, kInvalidRequest, "a message is a JSON object");
  }
  return read_object(parsed->as_object());
}

std::string result_line(const json::value& id, json::value result) {
  return to_line({{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}});
}

std::string error_line(const json::value& id, int code, std::string_view message) {
  json::object error{{"code", code}, {"message", message}};
  return to_line({{"jsonrpc", "2.0"}, {"id", id}, {"error", std::move(error)}});
}

std::string notification_line(std::string_view method, json::object params) {
  return to_line({{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}});
}

void LineSplitter::feed(std::string_view bytes, const std::function<void(std::string_view)>& line,
                        const std::function<void()>& too_long) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    std::string_view part = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    if (!is_skipping_ && held_.size() + part.size() > most_) {
      is_skipping_ = true;
      held_ = {};
      too_long();
    }
    if (!is_skipping_) held_ += part;
    if (end == std::string_view::npos) return;
    if (!is_skipping_) {
      if (held_.ends_with('\r')) held_.pop_back();
      if (!held_.empty()) line(held_);
      held_.clear();
    }
    is_skipping_ = false;
  }
}

}  // namespace glovebox::mcp
