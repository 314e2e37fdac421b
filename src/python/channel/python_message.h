// Messages of the Python channel as the supervisor reads them, and the frames in which they come
// (python/python_protocol.h).
//
// Both sides are strangers: what comes out of the box is hostile, and what comes from a client is
// checked before it goes in. A message is passed on as it is once it was found to be one.
#pragma once

#include "base/result.h"
#include "python/python_protocol.h"

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

using PythonOrder = python::Order;
using PythonWord = python::Word;
using python::cut_text;

struct PythonMessage {
  using Form = python::Form;
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

// The whole value, for messages that are carried out here. Code::Invalid also beyond so many
// values; texts are as long as they are.
Result<boost::json::object> read_whole(const PythonMessage& message);
inline constexpr std::size_t kMostWholeValues = 10'000;

PythonMessage text_message(const boost::json::object& object);

// The same with the bytes that it refers to, from offset 0 on.
PythonMessage message_with_bytes(const boost::json::object& object, std::string_view blob);

std::string encode_order(PythonOrder order, std::uint32_t cell, const PythonMessage& message);

template <typename Word>
struct FrameFrom {
  Word word = Word::Ready;
  std::uint32_t cell = 0;
  PythonMessage message;
};

// Puts frames together from what a pipe gives. Code::Invalid for a frame that no sender of such
// words sends; there is no way on from there.
template <typename Word>
class FrameReader {
 public:
  void feed(std::string_view bytes);
  // Nothing: more bytes are needed.
  Result<std::optional<FrameFrom<Word>>> next();
  std::size_t pending() const { return buffer_.size() - used_; }

 private:
  std::string buffer_;
  std::size_t used_ = 0;
};
extern template class FrameReader<python::Word>;
extern template class FrameReader<python::ReplWord>;

using PythonFrame = FrameFrom<python::Word>;
using PythonFrameReader = FrameReader<python::Word>;
using ReplFrame = FrameFrom<python::ReplWord>;
using ReplFrameReader = FrameReader<python::ReplWord>;

}  // namespace glovebox::session
