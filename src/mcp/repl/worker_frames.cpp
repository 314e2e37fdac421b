#include "mcp/repl/worker_frames.h"

namespace glovebox::mcp {
namespace {

constexpr std::size_t kHeader = 5;

std::optional<std::size_t> find_bound(char kind) {
  switch (FrameKind{kind}) {
    case FrameKind::Output:
    case FrameKind::Error:
    case FrameKind::InputWait: return kMaxWorkerText;
    case FrameKind::Image: return kMaxWorkerImage;
    case FrameKind::Ready:
    case FrameKind::Bye: return 0;
    case FrameKind::Over: return 64;
  }
  return std::nullopt;
}

}  // namespace

std::string encode_frame(char kind, std::string_view payload) {
  std::string frame(1, kind);
  for (unsigned shift = 0; shift < 32; shift += 8) {
    frame += static_cast<char>(payload.size() >> shift & 0xff);
  }
  frame += payload;
  return frame;
}

Result<std::optional<WorkerFrame>> FrameReader::next() {
  if (buffer_.empty()) return std::nullopt;
  const auto bound = find_bound(buffer_.front());
  if (!bound) return fail(Code::Invalid, "an unknown frame");
  if (buffer_.size() < kHeader) return std::nullopt;
  std::size_t size = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    size |= std::size_t{static_cast<unsigned char>(buffer_[i + 1])} << (8 * i);
  }
  if (size > *bound) return fail(Code::Invalid, "a frame of {} bytes", size);
  if (buffer_.size() < kHeader + size) return std::nullopt;
  WorkerFrame frame{FrameKind{buffer_.front()}, buffer_.substr(kHeader, size)};
  buffer_.erase(0, kHeader + size);
  return frame;
}

}  // namespace glovebox::mcp
