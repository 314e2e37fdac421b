// Frames of the Python worker (src/python/repl/worker.py says what they mean): a kind, a length in
// four bytes, little endian, and so many bytes.
//
// The worker is the box's: a frame may be anything. An unknown kind and a length over the bound of
// its kind end the session.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace glovebox::mcp {

inline constexpr std::size_t kMaxWorkerText = std::size_t{64} << 10;
inline constexpr std::size_t kMaxWorkerImage = std::size_t{8} << 20;

enum class FrameKind : char {
  Output = 'O',
  Error = 'E',
  Image = 'G',
  InputWait = 'W',
  Ready = 'R',
  Bye = 'B',
  Over = 'X',
};

struct WorkerFrame {
  FrameKind kind = FrameKind::Ready;
  std::string payload;
  friend bool operator==(const WorkerFrame&, const WorkerFrame&) = default;
};

std::string encode_frame(char kind, std::string_view payload);

// Takes bytes as they come and gives frames.
class FrameReader {
 public:
  void feed(std::string_view bytes) { buffer_ += bytes; }
  // Nothing: more bytes are needed.
  Result<std::optional<WorkerFrame>> next();

 private:
  std::string buffer_;
};

}  // namespace glovebox::mcp
