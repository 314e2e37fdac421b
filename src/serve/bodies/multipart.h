// multipart/form-data, read piece by piece: a file of any size costs one buffer.
//
// A pull parser. feed() takes bytes as they come from the client, next() says what they mean. The
// bytes are hostile: every length is bounded, and what does not fit the grammar is an error after
// which nothing more is read.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace glovebox::serve {

// The boundary of a Content-Type; an error when it is no multipart/form-data or has no good one.
Result<std::string> multipart_boundary(std::string_view content_type);

struct PartBegin {
  std::string name;
  std::optional<std::string> filename;
  friend bool operator==(const PartBegin&, const PartBegin&) = default;
};
// Bytes of the current part. Valid until the next call.
struct PartData {
  std::string_view bytes;
};
struct PartEnd {};
// The closing boundary was read. What follows it is ignored.
struct BodyEnd {};
struct NeedMore {};
using MultipartEvent = std::variant<PartBegin, PartData, PartEnd, BodyEnd, NeedMore>;

class MultipartReader {
 public:
  static constexpr std::size_t kMaxHeaders = 8 << 10;  // of one part
  static constexpr std::size_t kMaxParts = 2'000;

  explicit MultipartReader(std::string_view boundary);

  void feed(std::string_view bytes);
  // The client has sent everything; NeedMore is an error from here on.
  void end_input() { ended_ = true; }
  Result<MultipartEvent> next();

 private:
  enum class State : std::uint8_t { Preamble, AfterBoundary, Headers, Data, Done };

  Result<MultipartEvent> read_preamble();
  Result<MultipartEvent> after_boundary();
  Result<MultipartEvent> read_headers();
  Result<MultipartEvent> read_data();
  Result<MultipartEvent> need_more() const;
  std::string_view rest() const { return std::string_view(buffer_).substr(at_); }

  std::string delimiter_;  // CR LF - - boundary
  State state_ = State::Preamble;
  std::string buffer_;
  std::size_t at_ = 0;
  std::size_t parts_ = 0;
  bool ended_ = false;
};

}  // namespace glovebox::serve
