// Numbers to text without a library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace glovebox::launch {

// A short line built in place. Overflow is cut and remembered: text() is only used when fits().
class Line {
 public:
  Line& number(std::uint64_t value) noexcept {
    char digits[20];
    std::size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    while (count > 0) put(digits[--count]);
    return *this;
  }
  Line& put(char c) noexcept {
    if (size_ + 1 < sizeof(data_)) {
      data_[size_++] = c;
    } else {
      fits_ = false;
    }
    return *this;
  }
  bool fits() const noexcept { return fits_; }
  const char* text() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  char data_[64] = {};
  std::size_t size_ = 0;
  bool fits_ = true;
};

}  // namespace glovebox::launch
