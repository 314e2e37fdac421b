#include "async/nonblocking_fd.h"

#include <cerrno>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

// What a pipe holds, and what one holds that was found full: a longer pipe wakes its two ends less
// often. Short runs never fill theirs, and the kernel counts long ones for each user.
constexpr std::size_t kPlainPipe = std::size_t{64} << 10;
constexpr int kWidePipe = 256 << 10;

ReadyFd::Moved outcome(ssize_t size, int problem) {
  if (size > 0) return {ReadyFd::Step::Moved, static_cast<std::size_t>(size)};
  if (size < 0 && problem == EAGAIN) return {ReadyFd::Step::Waiting, 0};
  return {ReadyFd::Step::Ended, 0};
}

}  // namespace

void ReadyFd::adopt(UniqueFd fd) {
  close();
  is_wide_ = false;
  fd_ = std::move(fd);
}

void ReadyFd::close() {
  fd_.reset();
  watched_.reset();  // closes it, and the outstanding callback comes soon
  is_waiting_ = std::make_shared<bool>(false);
}

int ReadyFd::number() const {
  if (fd_) return fd_.get();
  // The wrapper's getter is not const; nothing is changed.
  return watched_ ? const_cast<ReadyFd*>(this)->watched_->native_handle() : -1;
}

ReadyFd::Moved ReadyFd::read(std::span<char> buffer) {
  if (!*this) return {};
  ssize_t size = -1;
  do {
    size = ::read(number(), buffer.data(), buffer.size());
  } while (size < 0 && errno == EINTR);
  const Moved moved = outcome(size, errno);
  if (moved.step == Step::Ended) close();
  return moved;
}

ReadyFd::Moved ReadyFd::fill(std::span<char> buffer) {
  std::size_t filled = 0;
  while (filled < buffer.size()) {
    const Moved moved = read(buffer.subspan(filled));
    if (moved.step != Step::Moved && filled == 0) return moved;
    if (moved.step != Step::Moved) break;
    filled += moved.bytes;
    if (moved.bytes >= kPlainPipe) widen();
  }
  return {Step::Moved, filled};
}

void ReadyFd::widen() {
  if (std::exchange(is_wide_, true)) return;
  (void)::fcntl(number(), F_SETPIPE_SZ, kWidePipe);  // one that stays short is slower, that is all
}

// The process ignores SIGPIPE: a reader that is gone is an error like another.
ReadyFd::Moved ReadyFd::write(std::string_view bytes) {
  if (!*this) return {};
  ssize_t size = -1;
  do {
    size = ::write(number(), bytes.data(), bytes.size());
  } while (size < 0 && errno == EINTR);
  const Moved moved = outcome(size, errno);
  if (moved.step == Step::Ended) close();
  if (moved.step == Step::Waiting) widen();
  return moved;
}

void ReadyFd::wait_for(boost::asio::posix::descriptor_base::wait_type what,
                       std::function<void()> wake) {
  if (!*this || *is_waiting_) return;
  if (!watched_) watched_.emplace(*loop_, fd_.release());
  *is_waiting_ = true;
  watched_->async_wait(what, [waiting = is_waiting_,
                              call = std::move(wake)](const boost::system::error_code& /*closed*/) {
    *waiting = false;
    call();
  });
}

void ReadyFd::when_readable(std::function<void()> wake) {
  wait_for(boost::asio::posix::descriptor_base::wait_read, std::move(wake));
}

void ReadyFd::when_writable(std::function<void()> wake) {
  wait_for(boost::asio::posix::descriptor_base::wait_write, std::move(wake));
}

}  // namespace glovebox::session
