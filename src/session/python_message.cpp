#include "session/python_message.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace glovebox::session {
namespace {

namespace json = boost::json;

constexpr std::size_t kHeader = 12;
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

bool is_place(const json::value& value, std::size_t blob_bytes) {
  const json::array* place = value.if_array();
  if (place == nullptr || place->size() != 2) return false;
  json::error_code problem;
  const auto offset = place->at(0).to_number<std::uint64_t>(problem);
  if (problem || offset > blob_bytes) return false;
  const auto size = place->at(1).to_number<std::uint64_t>(problem);
  return !problem && size <= blob_bytes - offset;
}

// Every reference to bytes leads to bytes of this message. The depth was bounded by the parser.
bool are_places_good(const json::value& value, std::size_t blob_bytes) {
  if (const json::array* array = value.if_array()) {
    for (const json::value& each : *array) {
      if (!are_places_good(each, blob_bytes)) return false;
    }
  }
  if (const json::object* object = value.if_object()) {
    for (const auto& [key, each] : *object) {
      const bool is_reference = key == "$bytes" || key == "$array";
      if (is_reference ? !is_place(each, blob_bytes) : !are_places_good(each, blob_bytes)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

Result<json::object> read_head(const PythonMessage& message) {
  std::string_view head = message.bytes;
  std::size_t blob_bytes = 0;
  if (head.size() > kMaxPythonMessage) {
    return fail(Code::Invalid, "a message of more than {} bytes", kMaxPythonMessage);
  }
  if (message.form == PythonMessage::Form::Binary) {
    if (head.size() < 4 || get_u32(head) > head.size() - 4) {
      return fail(Code::Invalid, "a binary message whose JSON is cut short");
    }
    const std::size_t size = get_u32(head);
    blob_bytes = head.size() - 4 - size;
    head = head.substr(4, size);
  }
  json::parse_options options;
  options.max_depth = kWholeDepth;
  json::error_code problem;
  const json::value value = json::parse(json::string_view(head.data(), head.size()), problem,
                                        json::storage_ptr(), options);
  if (problem) return fail(Code::Invalid, "a message that is no JSON: {}", problem.message());
  if (!value.is_object()) return fail(Code::Invalid, "a message that is no object");
  if (!are_places_good(value, blob_bytes)) {
    return fail(Code::Invalid, "a message that refers to bytes that it does not have");
  }
  return value.get_object();
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
                        word <= static_cast<std::uint8_t>(PythonWord::Over);
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
  }
  return frame;
}

}  // namespace glovebox::session
