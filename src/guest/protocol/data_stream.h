// The bytes of a job: pipes or sockets that may or may not wait by themselves.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace glovebox::guest {

inline constexpr std::uint64_t kToTheEnd = std::numeric_limits<std::uint64_t>::max();

// Copies up to `most` bytes, or until the source ends. Inside the kernel where it can: splice to or
// from a pipe, else by hand. Returns how many.
Result<std::uint64_t> copy_bytes(BorrowedFd from, BorrowedFd to, std::uint64_t most);

// Gathers small writes.
class DataWriter {
 public:
  explicit DataWriter(BorrowedFd to) : to_(to) {}

  Result<void> put(std::string_view bytes);
  // After what was put, bytes of a file from where it stands. Returns how many there were.
  Result<std::uint64_t> put_file(BorrowedFd from, std::uint64_t most);
  Result<void> flush();

 private:
  BorrowedFd to_;
  std::string held_;
};

// Reads ahead.
class DataReader {
 public:
  explicit DataReader(BorrowedFd from) : from_(from) {}

  // Fills the buffer whole, or as far as the source goes: how much that was.
  Result<std::size_t> take(std::span<char> buffer);
  // Copies exactly `size` bytes to a file. A source that ends before is an error.
  Result<void> take_to_file(BorrowedFd to, std::uint64_t size);
  Result<void> skip(std::uint64_t size);

 private:
  Result<bool> fill();  // false at the end

  BorrowedFd from_;
  std::string held_;
  std::size_t used_ = 0;
};

}  // namespace glovebox::guest
