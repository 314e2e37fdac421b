// The directories of numbers in /proc: processes, their threads, their descriptors.
//
// Read by the kernel's own call: some of this is done for every connection.
#pragma once

#include "base/unique_fd.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::egress {

// Empty with errno set.
inline UniqueFd open_directory(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// Calls use(number, name) for each entry whose name is a number, until that says Walk::Stop.
enum class Walk : std::uint8_t { On, Stop };
template <class Use>
void each_number(BorrowedFd directory, Use use) {
  constexpr long kLengthAt = 16;  // in a struct linux_dirent64 (getdents64(2))
  constexpr long kNameAt = 19;
  alignas(8) std::array<char, 4096> buffer;
  while (true) {
    const long size = ::syscall(SYS_getdents64, directory.get(), buffer.data(), buffer.size());
    if (size <= 0) return;
    for (long at = 0; at < size;) {
      std::uint16_t length = 0;
      std::memcpy(&length, buffer.data() + at + kLengthAt, sizeof(length));
      const char* name = buffer.data() + at + kNameAt;
      int number = -1;
      if (std::from_chars(name, name + std::strlen(name), number).ec == std::errc() &&
          use(number, name) == Walk::Stop) {
        return;
      }
      at += length;
    }
  }
}

}  // namespace glovebox::egress
