// Buffers for output, used again and again by the loop's thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace glovebox::session {

// One buffer, for as long as this lives.
class ReadBuffer {
 public:
  static constexpr std::size_t kSize = std::size_t{256} << 10;

  ReadBuffer();
  ReadBuffer(const ReadBuffer&) = delete;
  ReadBuffer& operator=(const ReadBuffer&) = delete;
  ~ReadBuffer();

  std::span<char> span() { return {bytes_.get(), kSize}; }

 private:
  std::unique_ptr<char[]> bytes_;
};

}  // namespace glovebox::session
