#include "python/channel/python_message.h"

#include "async/on_pool.h"
#include "base/strict_json.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <memory>
#include <utility>

namespace glovebox::session {
namespace {

namespace json = boost::json;

constexpr std::size_t kHeader = 12;
constexpr std::size_t kMostSpare = std::size_t{1} << 20;
constexpr std::size_t kWholeDepth = kMaxPythonDepth + 4;  // the message around the value

std::uint32_t get_u32(std::string_view at) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) {
    value = (value << 8) | static_cast<unsigned char>(at[static_cast<std::size_t>(i)]);
  }
  return value;
}

void put_u32(std::string& out, std::size_t value) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> (8 * i));
}

// Checks a message value by value and keeps the outermost level.
class Scan {
 public:
  // Names that the parser wants. What bounds the message bounds these.
  static constexpr std::size_t max_object_size = kMaxPythonMessage;
  static constexpr std::size_t max_array_size = kMaxPythonMessage;
  static constexpr std::size_t max_key_size = kMaxPythonMessage;
  static constexpr std::size_t max_string_size = kMaxPythonMessage;
  using Problem = json::error_code;
  using Text = json::string_view;

  explicit Scan(std::size_t blob_bytes) : blob_bytes_(blob_bytes) {}

  json::object take_members() { return std::move(members_); }
  std::size_t values() const { return values_; }
  const std::string& complaint() const { return complaint_; }

  bool on_document_begin(Problem& /*problem*/) { return true; }
  bool on_document_end(Problem& /*problem*/) { return true; }
  bool on_comment_part(Text /*part*/, Problem& /*problem*/) { return true; }
  bool on_comment(Text /*part*/, Problem& /*problem*/) { return true; }
  bool on_number_part(Text /*part*/, Problem& /*problem*/) { return true; }

  bool on_object_begin(Problem& problem) {
    if (place_ != Place::None) return refuse(problem, kNoPlace);
    return keep(json::object(), problem) && (++depth_, true);
  }
  bool on_object_end(std::size_t /*size*/, Problem& /*problem*/) { return --depth_, true; }
  bool on_array_begin(Problem& problem);
  bool on_array_end(std::size_t /*size*/, Problem& problem);
  bool on_key_part(Text part, std::size_t /*size*/, Problem& /*problem*/) { return append(part); }
  bool on_key(Text part, std::size_t size, Problem& problem);
  bool on_string_part(Text part, std::size_t /*size*/, Problem& /*problem*/) {
    return append(part);
  }
  bool on_string(Text part, std::size_t /*size*/, Problem& problem) {
    append(part);
    return scalar(json::value(cut_text(std::exchange(text_, {}), kMostHeadText)), problem);
  }
  bool on_int64(std::int64_t number, Text /*text*/, Problem& problem) {
    if (place_ != Place::None && number < 0) return refuse(problem, kNoPlace);
    return whole_number(static_cast<std::uint64_t>(number), number, problem);
  }
  bool on_uint64(std::uint64_t number, Text /*text*/, Problem& problem) {
    return whole_number(number, number, problem);
  }
  bool on_double(double number, Text /*text*/, Problem& problem) { return scalar(number, problem); }
  bool on_bool(bool value, Problem& problem) { return scalar(value, problem); }
  bool on_null(Problem& problem) { return scalar(nullptr, problem); }

 private:
  // Where in {"$bytes": [offset, size]} the parser is.
  enum class Place : std::uint8_t { None, Array, Offset, Size, End };
  static constexpr const char* kNoPlace = "a message that refers to bytes that it does not have";
  static constexpr std::size_t kMostMembers = 64;

  // A little more than is kept, so that it can be seen where the last character begins.
  bool append(Text part) {
    const std::size_t most = kMostHeadText + 4;
    text_.append(part.data(), std::min(part.size(), most - std::min(most, text_.size())));
    return true;
  }
  bool refuse(Problem& problem, const char* why) {
    complaint_ = why;
    problem = json::error::syntax;
    return false;
  }
  bool whole_number(std::uint64_t number, const json::value& value, Problem& problem);
  bool scalar(json::value value, Problem& problem) {
    if (place_ != Place::None) return refuse(problem, kNoPlace);
    return keep(std::move(value), problem);
  }
  bool keep(json::value value, Problem& problem);

  std::size_t blob_bytes_;
  std::size_t depth_ = 0;
  std::size_t values_ = 0;
  Place place_ = Place::None;
  std::uint64_t offset_ = 0;
  std::string text_;    // of the key or text that is being read
  std::string member_;  // whose value comes next
  json::object members_;
  std::string complaint_;
};

bool Scan::on_array_begin(Problem& problem) {
  if (place_ == Place::Array) {
    place_ = Place::Offset;
  } else if (place_ != Place::None) {
    return refuse(problem, kNoPlace);
  }
  return keep(json::array(), problem) && (++depth_, true);
}

bool Scan::on_array_end(std::size_t /*size*/, Problem& problem) {
  if (place_ != Place::None && place_ != Place::End) return refuse(problem, kNoPlace);
  place_ = Place::None;
  --depth_;
  return true;
}

bool Scan::on_key(Text part, std::size_t size, Problem& problem) {
  append(part);
  const std::string key = std::exchange(text_, {});
  if (key == "$bytes" || key == "$array") place_ = Place::Array;
  if (depth_ != 1) return true;
  if (size > kMostHeadText) return refuse(problem, "a message with a name that is too long");
  member_ = key;
  return true;
}

bool Scan::whole_number(std::uint64_t number, const json::value& value, Problem& problem) {
  if (place_ == Place::Offset) {
    if (number > blob_bytes_) return refuse(problem, kNoPlace);
    offset_ = number;
    place_ = Place::Size;
  } else if (place_ == Place::Size) {
    if (number > blob_bytes_ - offset_) return refuse(problem, kNoPlace);
    place_ = Place::End;
  } else if (place_ != Place::None) {
    return refuse(problem, kNoPlace);
  }
  return keep(value, problem);
}

bool Scan::keep(json::value value, Problem& problem) {
  ++values_;
  if (depth_ == 0 && !value.is_object()) return refuse(problem, "a message that is no object");
  if (depth_ != 1) return true;
  if (!members_.emplace(member_, std::move(value)).second) {
    return refuse(problem, "a message with a member twice");
  }
  if (members_.size() > kMostMembers) return refuse(problem, "a message with too many members");
  return true;
}

// A message as its two parts. Code::Invalid for one that is cut short or too large.
struct Parts {
  std::string_view head;
  std::size_t blob_bytes = 0;
};

Result<Parts> part(const PythonMessage& message) {
  const std::string_view all = message.bytes;
  if (all.size() > kMaxPythonMessage) {
    return fail(Code::Invalid, "a message of more than {} bytes", kMaxPythonMessage);
  }
  if (message.form == PythonMessage::Form::Text) return Parts{all, 0};
  if (all.size() < 4 || get_u32(all) > all.size() - 4) {
    return fail(Code::Invalid, "a binary message whose JSON is cut short");
  }
  const std::size_t size = get_u32(all);
  return Parts{all.substr(4, size), all.size() - 4 - size};
}

json::parse_options parse_options() {
  json::parse_options options;
  options.max_depth = kWholeDepth;
  return options;
}

Result<PythonHead> scan(const Parts& parts) {
  json::basic_parser<Scan> parser(parse_options(), parts.blob_bytes);
  json::error_code problem;
  const std::size_t read =
      parser.write_some(/*more=*/false, parts.head.data(), parts.head.size(), problem);
  Scan& found = parser.handler();
  if (!found.complaint().empty()) return fail(Code::Invalid, "{}", found.complaint());
  if (!problem && read < parts.head.size()) problem = json::error::extra_data;
  if (problem) return fail(Code::Invalid, "a message that is no JSON: {}", problem.message());
  return PythonHead{found.take_members(), found.values()};
}

}  // namespace

Result<PythonHead> read_head(const PythonMessage& message) {
  TRY(const Parts parts, part(message));
  return scan(parts);
}

std::size_t json_size(const PythonMessage& message) {
  const auto parts = part(message);
  return parts ? parts->head.size() : 0;  // what is no message is not read
}

asio::awaitable<Result<PythonHead>> read_head_aside(asio::thread_pool& pool,
                                                    PythonMessage& message) {
  if (json_size(message) <= kMostReadAtOnce) co_return read_head(message);
  const auto held = std::make_shared<PythonMessage>(std::move(message));
  const auto work = [held] { return read_head(*held); };
  auto head = co_await on_pool(pool, work);
  message = std::move(*held);
  co_return head;
}

Result<json::object> read_whole(const PythonMessage& message) {
  TRY(const Parts parts, part(message));
  TRY(const PythonHead scanned, scan(parts));
  if (scanned.values > kMostWholeValues) {
    return fail(Code::Invalid, "a message of more than {} values", kMostWholeValues);
  }
  TRY(json::value value,
      parse_strict_json(parts.head, {.max_bytes = parts.head.size(), .max_depth = kWholeDepth}));
  return std::move(value.as_object());
}

std::string cut_text(std::string_view utf8, std::size_t most) {
  if (utf8.size() <= most) return std::string(utf8);
  while (most > 0 && (static_cast<unsigned char>(utf8[most]) & 0xc0) == 0x80) --most;
  return std::string(utf8.substr(0, most));
}

PythonMessage text_message(const json::object& object) {
  return {PythonMessage::Form::Text, json::serialize(object)};
}

std::string encode_order(PythonOrder order, std::uint32_t cell, const PythonMessage& message) {
  std::string frame;
  frame.reserve(kHeader + message.bytes.size());
  put_u32(frame, message.bytes.size());
  frame += static_cast<char>(order);
  frame += static_cast<char>(message.form);
  frame.append(2, '\0');
  put_u32(frame, cell);
  frame += message.bytes;
  return frame;
}

void PythonFrameReader::feed(std::string_view bytes) {
  if (used_ > 0 && used_ >= buffer_.size() / 2) {
    buffer_.erase(0, used_);
    used_ = 0;
  }
  buffer_ += bytes;
}

Result<std::optional<PythonFrame>> PythonFrameReader::next() {
  const std::string_view left = std::string_view(buffer_).substr(used_);
  if (left.size() < kHeader) return std::nullopt;
  const std::size_t size = get_u32(left);
  const auto word = static_cast<std::uint8_t>(left[4]);
  const auto form = static_cast<std::uint8_t>(left[5]);
  const bool is_known = word >= static_cast<std::uint8_t>(PythonWord::Ready) &&
                        word <= static_cast<std::uint8_t>(PythonWord::Opened);
  if (!is_known || form > 1 || left[6] != 0 || left[7] != 0 || size > kMaxPythonMessage) {
    return fail(Code::Invalid, "the interpreter sent what is no frame");
  }
  if (left.size() - kHeader < size) {
    buffer_.reserve(used_ + kHeader + size);
    return std::nullopt;
  }
  PythonFrame frame;
  frame.word = static_cast<PythonWord>(word);
  frame.cell = get_u32(left.substr(8));
  frame.message.form = static_cast<PythonMessage::Form>(form);
  frame.message.bytes = left.substr(kHeader, size);
  used_ += kHeader + size;
  if (used_ == buffer_.size()) {
    buffer_.clear();
    used_ = 0;
    // What one large frame needed is not held for the next.
    if (buffer_.capacity() > kMostSpare) buffer_.shrink_to_fit();
  }
  return frame;
}

}  // namespace glovebox::session
