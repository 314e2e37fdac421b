#include "base/pipe.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace glovebox {

Result<Pipe> open_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_os(errno, "make a pipe");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<SocketPair> open_socket_pair(int type) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail_os(errno, "make a pair of sockets");
  }
  return SocketPair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<void> set_nonblocking(BorrowedFd fd) {
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return fail_os(errno, "make a descriptor not wait");
  }
  return {};
}

Result<UniqueFd> duplicate_fd(BorrowedFd fd) {
  UniqueFd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
  if (!copy) return fail_os(errno, "duplicate a descriptor");
  return copy;
}

}  // namespace glovebox
