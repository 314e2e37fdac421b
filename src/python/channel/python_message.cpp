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
using python::MessageParts;

constexpr std::size_t kMostSpare = std::size_t{1} << 20;
constexpr std::size_t kWholeDepth = python::kMaxDepth + 4;  // the message around the value

// Checks a message value by value and keeps the outermost level.
class Scan {
 public:
  // Names that the parser wants. What bounds the message bounds these.
  static constexpr std::size_t max_object_size = python::kMaxMessage;
  static constexpr std::size_t max_array_size = python::kMaxMessage;
  static constexpr std::size_t max_key_size = python::kMaxMessage;
  static constexpr std::size_t max_string_size = python::kMaxMessage;
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

Result<MessageParts> split(const PythonMessage& message) {
  if (message.bytes.size() > python::kMaxMessage) {
    return fail(Code::Invalid, "a message of more than {} bytes", python::kMaxMessage);
  }
  const auto parts = python::split_message(message.bytes, message.form);
  if (!parts) return fail(Code::Invalid, "a binary message whose JSON is cut short");
  return *parts;
}

json::parse_options parse_options() {
  json::parse_options options;
  options.max_depth = kWholeDepth;
  return options;
}

Result<PythonHead> scan(const MessageParts& parts) {
  json::basic_parser<Scan> parser(parse_options(), parts.blobs.size());
  json::error_code problem;
  const std::size_t read =
      parser.write_some(/*more=*/false, parts.json.data(), parts.json.size(), problem);
  Scan& found = parser.handler();
  if (!found.complaint().empty()) return fail(Code::Invalid, "{}", found.complaint());
  if (!problem && read < parts.json.size()) problem = json::error::extra_data;
  if (problem) return fail(Code::Invalid, "a message that is no JSON: {}", problem.message());
  return PythonHead{found.take_members(), found.values()};
}

}  // namespace

Result<PythonHead> read_head(const PythonMessage& message) {
  TRY(const MessageParts parts, split(message));
  return scan(parts);
}

std::size_t json_size(const PythonMessage& message) {
  const auto parts = python::split_message(message.bytes, message.form);
  return parts ? parts->json.size() : 0;  // what is no message is not read
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
  TRY(const MessageParts parts, split(message));
  TRY(const PythonHead scanned, scan(parts));
  if (scanned.values > kMostWholeValues) {
    return fail(Code::Invalid, "a message of more than {} values", kMostWholeValues);
  }
  TRY(json::value value,
      parse_strict_json(parts.json, {.max_bytes = parts.json.size(), .max_depth = kWholeDepth}));
  return std::move(value.as_object());
}

PythonMessage text_message(const json::object& object) {
  return {PythonMessage::Form::Text, json::serialize(object)};
}

PythonMessage message_with_bytes(const json::object& object, std::string_view blob) {
  const std::string text = json::serialize(object);
  std::string bytes(python::kJsonLengthSize, '\0');
  python::put_number(bytes.data(), static_cast<std::uint32_t>(text.size()));
  bytes.append(text).append(blob);
  return {PythonMessage::Form::Binary, std::move(bytes)};
}

std::string encode_order(PythonOrder order, std::uint32_t cell, const PythonMessage& message) {
  const auto header = python::encode_header({static_cast<std::uint32_t>(message.bytes.size()),
                                             static_cast<std::uint8_t>(order), message.form, cell});
  std::string frame;
  frame.reserve(header.size() + message.bytes.size());
  frame.append(header.data(), header.size()).append(message.bytes);
  return frame;
}

template <typename Word>
void FrameReader<Word>::feed(std::string_view bytes) {
  if (used_ > 0 && used_ >= buffer_.size() / 2) {
    buffer_.erase(0, used_);
    used_ = 0;
  }
  buffer_ += bytes;
}

template <typename Word>
Result<std::optional<FrameFrom<Word>>> FrameReader<Word>::next() {
  const std::string_view left = std::string_view(buffer_).substr(used_);
  if (left.size() < python::kHeaderSize) return std::nullopt;
  const auto header = python::decode_header(left);
  const auto bound = header ? python::find_bound<Word>(header->kind) : std::nullopt;
  if (!bound || header->size > *bound) {
    return fail(Code::Invalid, "the interpreter sent what is no frame");
  }
  const std::size_t whole = python::kHeaderSize + header->size;
  if (left.size() < whole) {
    buffer_.reserve(used_ + whole);
    return std::nullopt;
  }
  FrameFrom<Word> frame;
  frame.word = static_cast<Word>(header->kind);
  frame.cell = header->cell;
  frame.message.form = header->form;
  frame.message.bytes = left.substr(python::kHeaderSize, header->size);
  used_ += whole;
  if (used_ == buffer_.size()) {
    buffer_.clear();
    used_ = 0;
    // What one large frame needed is not held for the next.
    if (buffer_.capacity() > kMostSpare) buffer_.shrink_to_fit();
  }
  return frame;
}

template class FrameReader<python::Word>;
template class FrameReader<python::ReplWord>;

}  // namespace glovebox::session
