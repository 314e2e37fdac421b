// Parts of a file: by bytes, as HTTP asks for them, and by lines.
#pragma once

#include "http/message.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace glovebox::serve {

struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  // inclusive
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// The first range of "bytes=0-3, 5-" that a file of `size` bytes has; nothing when none of them
// begins inside it: the whole file is the answer then. 416 for bad syntax.
Result<std::optional<ByteRange>, ApiError> parse_range(std::string_view header, std::uint64_t size);

// Lines `offset` (from 1) to offset + limit - 1 of a text that comes in pieces: joined by line
// feeds, without carriage returns at their ends, and without a last line feed.
class LineCutter {
 public:
  LineCutter(std::uint64_t offset, std::optional<std::uint64_t> limit)
      : next_wanted_(offset), left_(limit) {}

  // Appends what belongs to the answer. False when nothing more can come.
  bool add(std::string_view bytes, std::string& out);

 private:
  void take(std::string_view text, std::string& out);

  std::uint64_t next_wanted_;
  std::optional<std::uint64_t> left_;
  std::uint64_t line_ = 1;
  bool began_ = false;        // something of the current line has been seen
  bool first_ = true;         // no line was given yet
  bool held_return_ = false;  // a carriage return that may be the line's last byte
};

// attachment; filename="..." with the name of a file, which is the box's.
std::string content_disposition(std::string_view name);

}  // namespace glovebox::serve
