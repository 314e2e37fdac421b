#include "session/box/read_buffer.h"

namespace glovebox::session {
namespace {

// So many are kept; in a burst of more, the rest is given back.
constexpr std::size_t kKept = 8;

std::vector<std::unique_ptr<char[]>>& kept() {
  static thread_local std::vector<std::unique_ptr<char[]>> buffers;
  return buffers;
}

}  // namespace

ReadBuffer::ReadBuffer() {
  if (kept().empty()) {
    bytes_ = std::make_unique_for_overwrite<char[]>(kSize);
    return;
  }
  bytes_ = std::move(kept().back());
  kept().pop_back();
}

ReadBuffer::~ReadBuffer() {
  if (kept().size() < kKept) kept().push_back(std::move(bytes_));
}

}  // namespace glovebox::session
