#include "base/file.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <linux/limits.h>
#include <unistd.h>

namespace glovebox {

Result<UniqueFd> open_file_at(BorrowedFd dir, const std::string& path, int flags, unsigned mode) {
  UniqueFd fd(::openat(dir.get(), path.c_str(), flags | O_CLOEXEC, mode));
  if (!fd) return fail_os(errno, "open {}", path);
  return fd;
}

Result<UniqueFd> open_file(const std::string& path, int flags, unsigned mode) {
  return open_file_at(BorrowedFd(AT_FDCWD), path, flags, mode);
}

Result<std::string> read_fd(BorrowedFd fd, std::size_t limit) {
  std::string text;
  std::array<char, 4096> buffer;
  while (true) {
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_os(errno, "read");
    if (n == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(n));
    if (text.size() > limit) return fail(Code::Exhausted, "more than {} bytes", limit);
  }
}

Result<std::string> read_file_at(BorrowedFd dir, const std::string& path, std::size_t limit) {
  TRY(const UniqueFd fd, open_file_at(dir, path, O_RDONLY));
  auto text = read_fd(fd, limit);
  if (!text) {
    Error error = std::move(text).error();
    error.message = fmt::format("{}: {}", path, error.message);
    return tl::unexpected(std::move(error));
  }
  return text;
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  return read_file_at(BorrowedFd(AT_FDCWD), path, limit);
}

Result<void> write_control_at(BorrowedFd dir, const std::string& path, std::string_view text) {
  TRY(const UniqueFd fd, open_file_at(dir, path, O_WRONLY));
  const ssize_t n = ::write(fd.get(), text.data(), text.size());
  if (n < 0) return fail_os(errno, "write '{}' to {}", text, path);
  if (static_cast<std::size_t>(n) != text.size()) return fail_os(EIO, "short write to {}", path);
  return {};
}

Result<std::string> path_of(BorrowedFd fd) {
  std::array<char, PATH_MAX> text{};
  const std::string link = fmt::format("/proc/self/fd/{}", fd.get());
  const ssize_t size = ::readlink(link.c_str(), text.data(), text.size());
  if (size <= 0) return fail_os(errno, "find out where a file is");
  if (static_cast<std::size_t>(size) == text.size()) {
    return fail_os(ENAMETOOLONG, "find out where a file is");
  }
  return std::string(text.data(), static_cast<std::size_t>(size));
}

Result<void> write_control(const std::string& path, std::string_view text) {
  return write_control_at(BorrowedFd(AT_FDCWD), path, text);
}

Result<void> write_all(BorrowedFd fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_os(errno, "write");
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace glovebox
