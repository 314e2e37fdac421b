#include "serve/bodies/multipart.h"

#include <algorithm>

namespace glovebox::serve {
namespace {

constexpr std::size_t kMaxBoundary = 70;  // RFC 2046

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Takes the value of one parameter off the front: a token, or a quoted text.
Result<std::string> take_value(std::string_view& text) {
  std::string value;
  if (!text.starts_with('"')) {
    const std::size_t end = std::min(text.find(';'), text.size());
    value = trim(text.substr(0, end));
    text.remove_prefix(end);
    return value;
  }
  text.remove_prefix(1);
  while (!text.empty() && text.front() != '"') {
    // A backslash before a quote is an escape; before anything else browsers mean it as it is.
    if (text.front() == '\\' && text.size() > 1 && (text[1] == '"' || text[1] == '\\')) {
      text.remove_prefix(1);
    }
    value += text.front();
    text.remove_prefix(1);
  }
  if (text.empty()) return fail(Code::Invalid, "a quoted text in a header does not end");
  text.remove_prefix(1);
  return value;
}

// The value of the parameter `name` in "form-data; name=\"a\"; filename=\"b\"".
Result<std::optional<std::string>> find_parameter(std::string_view text, std::string_view name) {
  const std::size_t first = text.find(';');
  if (first == std::string_view::npos) return std::optional<std::string>();
  text.remove_prefix(first);
  while (text.starts_with(';')) {
    text.remove_prefix(1);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) break;
    const std::string_view key = trim(text.substr(0, equals));
    text = text.substr(equals + 1);
    while (text.starts_with(' ')) text.remove_prefix(1);
    TRY(std::string value, take_value(text));
    if (equals_ignoring_case(key, name)) return std::optional<std::string>(std::move(value));
    text = trim(text);
  }
  return std::optional<std::string>();
}

// The value of a header in a block of them; nothing when it is not there.
std::optional<std::string_view> find_header(std::string_view block, std::string_view name) {
  while (!block.empty()) {
    const std::size_t end = std::min(block.find("\r\n"), block.size());
    const std::string_view line = block.substr(0, end);
    block.remove_prefix(std::min(end + 2, block.size()));
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos &&
        equals_ignoring_case(trim(line.substr(0, colon)), name)) {
      return trim(line.substr(colon + 1));
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::string> multipart_boundary(std::string_view content_type) {
  const std::string_view type = trim(content_type.substr(0, content_type.find(';')));
  if (!equals_ignoring_case(type, "multipart/form-data")) {
    return fail(Code::Invalid, "the body is multipart/form-data");
  }
  TRY(const std::optional<std::string> boundary, find_parameter(content_type, "boundary"));
  if (!boundary || boundary->empty() || boundary->size() > kMaxBoundary ||
      boundary->find_first_of("\r\n") != std::string::npos) {
    return fail(Code::Invalid, "a boundary of 1 to {} characters is missing in Content-Type",
                kMaxBoundary);
  }
  return *boundary;
}

// The body begins as if a line had ended before it, so that the first boundary is like the others.
MultipartReader::MultipartReader(std::string_view boundary)
    : delimiter_(fmt::format("\r\n--{}", boundary)), buffer_("\r\n") {}

void MultipartReader::feed(std::string_view bytes) {
  buffer_.erase(0, at_);
  at_ = 0;
  buffer_ += bytes;
}

Result<MultipartEvent> MultipartReader::need_more() const {
  if (ended_) return fail(Code::Invalid, "the multipart body ends early");
  return MultipartEvent(NeedMore{});
}

Result<MultipartEvent> MultipartReader::next() {
  switch (state_) {
    case State::Preamble: return read_preamble();
    case State::AfterBoundary: return after_boundary();
    case State::Headers: return read_headers();
    case State::Data: return read_data();
    case State::Done: return MultipartEvent(BodyEnd{});
  }
  return fail(Code::Invalid, "the multipart body is malformed");
}

Result<MultipartEvent> MultipartReader::read_preamble() {
  const std::size_t found = rest().find(delimiter_);
  if (found == std::string_view::npos) {
    if (rest().size() > kMaxHeaders)
      return fail(Code::Invalid, "no boundary in the multipart body");
    return need_more();
  }
  at_ += found + delimiter_.size();
  state_ = State::AfterBoundary;
  return after_boundary();
}

Result<MultipartEvent> MultipartReader::after_boundary() {
  if (rest().size() < 2) return need_more();
  if (rest().starts_with("--")) {
    state_ = State::Done;
    return MultipartEvent(BodyEnd{});
  }
  // Blanks may stand between a boundary and the end of its line.
  const std::size_t end = rest().find("\r\n");
  if (end == std::string_view::npos) {
    if (rest().size() > kMaxBoundary) return fail(Code::Invalid, "a boundary's line does not end");
    return need_more();
  }
  if (!trim(rest().substr(0, end)).empty()) {
    return fail(Code::Invalid, "there is text behind a boundary");
  }
  at_ += end;  // the line's end is also that of an empty block of headers
  state_ = State::Headers;
  return read_headers();
}

Result<MultipartEvent> MultipartReader::read_headers() {
  const std::size_t end = rest().find("\r\n\r\n");
  if (end == std::string_view::npos) {
    if (rest().size() > kMaxHeaders) {
      return fail(Code::Invalid, "the headers of a part are larger than {} bytes", kMaxHeaders);
    }
    return need_more();
  }
  if (end > kMaxHeaders || ++parts_ > kMaxParts) {
    return fail(Code::Invalid,
                "a multipart body has at most {} parts with {} bytes of headers each", kMaxParts,
                kMaxHeaders);
  }
  const auto disposition = find_header(rest().substr(0, end), "Content-Disposition");
  if (!disposition) return fail(Code::Invalid, "a part has no Content-Disposition");
  TRY(std::optional<std::string> name, find_parameter(*disposition, "name"));
  if (!name) return fail(Code::Invalid, "a part has no name");
  PartBegin part;
  part.name = *std::move(name);
  TRY(part.filename, find_parameter(*disposition, "filename"));
  at_ += end + 4;
  state_ = State::Data;
  return MultipartEvent(std::move(part));
}

Result<MultipartEvent> MultipartReader::read_data() {
  const std::string_view bytes = rest();
  const std::size_t found = bytes.find(delimiter_);
  if (found == 0) {
    at_ += delimiter_.size();
    state_ = State::AfterBoundary;
    return MultipartEvent(PartEnd{});
  }
  std::size_t length = found;
  if (found == std::string_view::npos) {
    // The end of what is here may be the start of a delimiter.
    const std::size_t kept = std::min(bytes.size(), delimiter_.size() - 1);
    length = bytes.size() - kept;
    const std::size_t start = bytes.find('\r', length);
    length = start == std::string_view::npos ? bytes.size() : start;
  }
  if (length == 0) return need_more();
  at_ += length;
  return MultipartEvent(PartData{bytes.substr(0, length)});
}

}  // namespace glovebox::serve
