// Messages of the Python channel, and the frames in which they cross between the supervisor and the
// interpreter in its box (python/host/frames.h has the other side).
//
// A message is JSON, or with Form::Binary the length of the JSON (u32, little-endian), the JSON,
// and the bytes that it refers to. Both sides are strangers: what comes out of the box is hostile,
// and what comes from a client is checked before it goes in. A message is passed on as it is once
// it was found to be one.
#pragma once

#include "base/result.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/json/object.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace glovebox::session {

namespace asio = boost::asio;

// The largest message, with its bytes.
inline constexpr std::size_t kMaxPythonMessage = std::size_t{64} << 20;
// How deep a value is nested at most, in its message.
inline constexpr std::size_t kMaxPythonDepth = 64;

struct PythonMessage {
  enum class Form : std::uint8_t { Text, Binary };
  Form form = Form::Text;
  std::string bytes;
  friend bool operator==(const PythonMessage&, const PythonMessage&) = default;
};

// What can be said of a message without building its value: the members of the outermost object,
// with lists and objects among them empty, and texts cut to kMostHeadText; and how many values it
// has.
struct PythonHead {
  boost::json::object members;
  std::size_t values = 0;
};
inline constexpr std::size_t kMostHeadText = 4096;

// All of the message is checked on the way, in memory that does not grow with it: two bytes of JSON
// can be a value, and a value takes many times that. Code::Invalid for what is no message: too
// large, nested too deep, no object, a reference to bytes that are not there.
Result<PythonHead> read_head(const PythonMessage& message);
// How much of a message there is to be read for that, and how much is read on the loop's thread: it
// takes a second for the longest. What is longer is read on a thread of the pool.
std::size_t json_size(const PythonMessage& message);
inline constexpr std::size_t kMostReadAtOnce = std::size_t{256} << 10;
asio::awaitable<Result<PythonHead>> read_head_aside(asio::thread_pool& pool,
                                                    PythonMessage& message);

// The JSON of a request, which nobody needs to take for the next one to come. The host has the same
// number (python/host/frames.h); large values are bytes.
inline constexpr std::size_t kMaxRequestJson = std::size_t{1} << 20;

// The whole value, for messages that are carried out here. Code::Invalid also beyond so many
// values; texts are as long as they are.
Result<boost::json::object> read_whole(const PythonMessage& message);
inline constexpr std::size_t kMostWholeValues = 10'000;

// The beginning of a text, at most so many bytes, without half a character at its end.
std::string cut_text(std::string_view utf8, std::size_t most);

PythonMessage text_message(const boost::json::object& object);

// To the interpreter.
enum class PythonOrder : std::uint8_t {
  Begin = 1,
  Operation = 2,
  Post = 3,
  Reply = 4,
  Cancel = 5,
  End = 6,
  Room =
      7,  // how many messages and bytes of the cell's were taken off its hands, in all (u64 each)
};
// From the interpreter.
enum class PythonWord : std::uint8_t {
  Ready = 1,
  Answer = 2,
  Post = 3,
  Request = 4,
  Event = 5,
  Over = 6,
  Opened = 7,
};

struct PythonFrame {
  PythonWord word = PythonWord::Ready;
  std::uint32_t cell = 0;
  PythonMessage message;
};

std::string encode_order(PythonOrder order, std::uint32_t cell, const PythonMessage& message);

// Puts frames together from what a pipe gives. Code::Invalid for a frame that no host sends; there
// is no way on from there.
class PythonFrameReader {
 public:
  void feed(std::string_view bytes);
  Result<std::optional<PythonFrame>> next();
  std::size_t pending() const { return buffer_.size() - used_; }

 private:
  std::string buffer_;
  std::size_t used_ = 0;
};

}  // namespace glovebox::session
