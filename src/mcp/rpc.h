// JSON-RPC 2.0 as MCP uses it over stdio: one message a line.
//
// The peer is the program that started the server, but what it relays comes from a model, so a line
// is read as hostile: bounded in length and depth, no key twice, no batch. What is refused here
// never reaches a tool.
#pragma once

#include <boost/json.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <variant>

namespace glovebox::mcp {

namespace json = boost::json;

// The longest line. Code for a run is at most 4 MiB, and JSON may write each byte as six.
inline constexpr std::size_t kMaxLine = std::size_t{32} << 20;
inline constexpr std::size_t kMaxDepth = 64;

// Error codes of JSON-RPC.
inline constexpr int kParseError = -32700;
inline constexpr int kInvalidRequest = -32600;
inline constexpr int kMethodNotFound = -32601;
inline constexpr int kInvalidParams = -32602;
inline constexpr int kInternalError = -32603;

// Something to be answered. The id is a string or an integer and goes back as it came.
struct Request {
  json::value id;
  std::string method;
  json::object params;
};
struct Notification {
  std::string method;
  json::object params;
};
// An answer to something that this server asked; it asks nothing.
struct Answer {};
// A line that is none of the above. The id is null unless the line had a usable one.
struct Malformed {
  json::value id;
  int code = kInvalidRequest;
  std::string message;
};
using Message = std::variant<Request, Notification, Answer, Malformed>;

// Total: every text gives one of the four.
Message parse_message(std::string_view line);

// Lines to send, with their newline.
std::string result_line(const json::value& id, json::value result);
std::string error_line(const json::value& id, int code, std::string_view message);
std::string notification_line(std::string_view method, json::object params);

// Cuts a stream of bytes into lines. A line that is longer than the bound is skipped up to its end
// and reported once, so that its sender learns of it and the next line is read as usual.
class LineSplitter {
 public:
  explicit LineSplitter(std::size_t most = kMaxLine) : most_(most) {}

  // Calls `line` for each that is complete, without its newline and without a carriage return
  // before it; empty ones are left out. Calls `too_long` for each that was skipped.
  void feed(std::string_view bytes, const std::function<void(std::string_view)>& line,
            const std::function<void()>& too_long);

 private:
  std::size_t most_;
  std::string held_;
  bool is_skipping_ = false;
};

}  // namespace glovebox::mcp
