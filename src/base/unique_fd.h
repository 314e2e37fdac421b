// Owners and borrowers of file descriptors.
#pragma once

#include <utility>

#include <unistd.h>

namespace glovebox {

// A file descriptor that is valid for the call it is passed to. Owns nothing.
class BorrowedFd {
 public:
  explicit constexpr BorrowedFd(int fd) : fd_(fd) {}
  constexpr int get() const { return fd_; }

 private:
  int fd_;
};

// Owns one file descriptor and closes it. There is no conversion to int or bool by accident.
// Every fd we open is close-on-exec from birth; this class does not set the flag itself.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  operator BorrowedFd() const { return BorrowedFd(fd_); }

  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace glovebox
