#include "launch/relay.h"

#include <algorithm>
#include <cerrno>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace glovebox::launch {
namespace {

// Another relay may have filled what both write to since it was looked at, and a socket that takes
// something may not take all of it. A supervisor that waits here enforces no limit.
ssize_t write_now(int fd, const char* bytes, std::size_t count) {
  pollfd look{fd, POLLOUT, 0};
  if (::poll(&look, 1, 0) <= 0) {
    errno = EAGAIN;
    return -1;
  }
  const ssize_t sent = ::send(fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 && errno == ENOTSOCK ? ::write(fd, bytes, count) : sent;
}

}  // namespace

void Relay::close() {
  closed_ = true;
  from_.owned.reset();
  to_.owned.reset();
}

void Relay::read_some(std::uint64_t allowed) {
  if (closed_ || pending_ != 0) return;
  const std::size_t want = static_cast<std::size_t>(std::min<std::uint64_t>(kBuffer, allowed));
  const ssize_t n = ::read(from_.fd, buffer_->data(), std::max<std::size_t>(want, 1));
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    // A terminal whose last user is gone reads as EIO.
    if (n < 0 && errno != EIO) lost_by_ = errno;
    close();
    return;
  }
  bytes_ += static_cast<std::uint64_t>(n);
  start_ = 0;
  pending_ = static_cast<std::size_t>(n);
}

void Relay::write_some() {
  if (closed_ || pending_ == 0) return;
  const ssize_t n = write_now(to_.fd, buffer_->data() + start_, std::min(pending_, kPiece));
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n < 0) {
    // The reader is gone: the box learns it as EPIPE, EIO or the end of its input.
    if (errno != EPIPE && errno != EIO) lost_by_ = errno;
    close();
    return;
  }
  start_ += static_cast<std::size_t>(n);
  pending_ -= static_cast<std::size_t>(n);
}

void Relay::drain(std::uint64_t allowed) {
  const std::uint64_t before = bytes_;
  while (!closed_) {
    while (!closed_ && pending_ != 0) {
      pollfd wait{to_.fd, POLLOUT, 0};
      if (::poll(&wait, 1, -1) > 0) write_some();
    }
    if (closed_ || bytes_ - before >= allowed) break;
    pollfd wait{from_.fd, POLLIN, 0};
    if (::poll(&wait, 1, 0) <= 0) break;
    read_some(allowed - (bytes_ - before));
  }
  close();
}

}  // namespace glovebox::launch
