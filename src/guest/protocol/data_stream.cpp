#include "guest/protocol/data_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace glovebox::guest {
namespace {

constexpr std::size_t kBuffer = std::size_t{64} << 10;
constexpr std::size_t kSpliceAtOnce = std::size_t{1} << 20;

void wait_for(BorrowedFd fd, short events) {
  pollfd wait{fd.get(), events, 0};
  (void)::poll(&wait, 1, -1);  // interrupted or not, the call after it tells
}

Result<std::size_t> read_some(BorrowedFd from, char* to, std::size_t most) {
  while (true) {
    const ssize_t size = ::read(from.get(), to, most);
    if (size >= 0) return static_cast<std::size_t>(size);
    if (errno == EAGAIN) {
      wait_for(from, POLLIN);
    } else if (errno != EINTR) {
      return fail_os(errno, "read");
    }
  }
}

Result<void> write_whole(BorrowedFd to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(to.get(), bytes.data(), bytes.size());
    if (size >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(size));
    } else if (errno == EAGAIN) {
      wait_for(to, POLLOUT);
    } else if (errno != EINTR) {
      return fail_os(errno, "write");
    }
  }
  return {};
}

Result<std::uint64_t> copy_by_hand(BorrowedFd from, BorrowedFd to, std::uint64_t most) {
  std::vector<char> buffer(kBuffer);
  std::uint64_t copied = 0;
  while (copied < most) {
    const std::size_t want = std::min<std::uint64_t>(buffer.size(), most - copied);
    TRY(const std::size_t size, read_some(from, buffer.data(), want));
    if (size == 0) break;
    TRY_VOID(write_whole(to, {buffer.data(), size}));
    copied += size;
  }
  return copied;
}

}  // namespace

Result<std::uint64_t> copy_bytes(BorrowedFd from, BorrowedFd to, std::uint64_t most) {
  std::uint64_t copied = 0;
  while (copied < most) {
    const std::size_t want = std::min<std::uint64_t>(kSpliceAtOnce, most - copied);
    const ssize_t size =
        ::splice(from.get(), nullptr, to.get(), nullptr, want, SPLICE_F_MOVE | SPLICE_F_MORE);
    if (size == 0) break;
    if (size > 0) {
      copied += static_cast<std::uint64_t>(size);
    } else if (errno == EAGAIN) {
      // One of the two does not wait by itself, and splice does not say which.
      pollfd waits[2] = {{from.get(), POLLIN, 0}, {to.get(), POLLOUT, 0}};
      for (pollfd& wait : waits) (void)::poll(&wait, 1, -1);
    } else if (errno == EINVAL) {
      // Neither is a pipe, or the file cannot be spliced.
      TRY(const std::uint64_t rest, copy_by_hand(from, to, most - copied));
      return copied + rest;
    } else if (errno != EINTR) {
      return fail_os(errno, "copy");
    }
  }
  return copied;
}

Result<void> DataWriter::put(std::string_view bytes) {
  if (held_.size() + bytes.size() > kBuffer) TRY_VOID(flush());
  if (bytes.size() > kBuffer) return write_whole(to_, bytes);
  held_ += bytes;
  return {};
}

Result<void> DataWriter::flush() {
  TRY_VOID(write_whole(to_, held_));
  held_.clear();
  return {};
}

Result<std::uint64_t> DataWriter::put_file(BorrowedFd from, std::uint64_t most) {
  if (most > kBuffer) {
    TRY_VOID(flush());
    return copy_bytes(from, to_, most);
  }
  if (held_.size() + most > kBuffer) TRY_VOID(flush());
  const std::size_t before = held_.size();
  held_.resize(before + most);
  std::size_t size = 0;
  while (size < most) {
    TRY(const std::size_t part, read_some(from, held_.data() + before + size, most - size));
    if (part == 0) break;
    size += part;
  }
  held_.resize(before + size);
  return size;
}

Result<bool> DataReader::fill() {
  held_.resize(kBuffer);
  auto size = read_some(from_, held_.data(), held_.size());
  held_.resize(size ? *size : 0);
  used_ = 0;
  if (!size) return tl::unexpected(std::move(size).error());
  return *size > 0;
}

Result<std::size_t> DataReader::take(std::span<char> buffer) {
  std::size_t taken = 0;
  while (taken < buffer.size()) {
    if (used_ == held_.size()) {
      TRY(const bool more, fill());
      if (!more) break;
    }
    const std::size_t part = std::min(buffer.size() - taken, held_.size() - used_);
    std::memcpy(buffer.data() + taken, held_.data() + used_, part);
    taken += part;
    used_ += part;
  }
  return taken;
}

Result<void> DataReader::take_to_file(BorrowedFd to, std::uint64_t size) {
  const std::size_t ahead = std::min<std::uint64_t>(size, held_.size() - used_);
  TRY_VOID(write_whole(to, std::string_view(held_).substr(used_, ahead)));
  used_ += ahead;
  size -= ahead;
  if (size > kBuffer) {
    TRY(const std::uint64_t copied, copy_bytes(from_, to, size));
    size -= copied;
  }
  while (size > 0) {
    TRY(const bool more, fill());
    if (!more) return fail(Code::Invalid, "the data ends too early");
    const std::size_t part = std::min<std::uint64_t>(size, held_.size());
    TRY_VOID(write_whole(to, std::string_view(held_).substr(0, part)));
    used_ = part;
    size -= part;
  }
  return {};
}

Result<void> DataReader::skip(std::uint64_t size) {
  while (size > 0) {
    if (used_ == held_.size()) {
      TRY(const bool more, fill());
      if (!more) return fail(Code::Invalid, "the data ends too early");
    }
    const std::size_t part = std::min<std::uint64_t>(size, held_.size() - used_);
    used_ += part;
    size -= part;
  }
  return {};
}

}  // namespace glovebox::guest
