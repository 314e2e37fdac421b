#include "guest/protocol/wire.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>
#include <sys/uio.h>

namespace glovebox::guest {
namespace {

using ControlBuffer = std::array<char, CMSG_SPACE(sizeof(int) * kMaxFrameFds)>;

void attach(msghdr& packet, ControlBuffer& control, const std::vector<UniqueFd>& fds) {
  if (fds.empty()) return;
  GLOVEBOX_CHECK(fds.size() <= kMaxFrameFds);
  packet.msg_control = control.data();
  packet.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&packet);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  for (std::size_t i = 0; i < fds.size(); ++i) {
    const int fd = fds[i].get();
    std::memcpy(CMSG_DATA(header) + i * sizeof(int), &fd, sizeof(int));
  }
}

std::vector<UniqueFd> take_fds(msghdr& packet) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* header = CMSG_FIRSTHDR(&packet); header != nullptr;
       header = CMSG_NXTHDR(&packet, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

bool is_later(int os_errno) { return os_errno == EAGAIN || os_errno == EINTR; }

}  // namespace

Wire::Wire(UniqueFd socket, Transport transport)
    : socket_(std::move(socket)), transport_(transport) {}

Result<void> Wire::send(std::string frame, std::vector<UniqueFd> fds) {
  if (queued_ + frame.size() > kMaxQueued) {
    return fail(Code::Exhausted, "the peer does not read: {} bytes wait for it", queued_);
  }
  queued_ += frame.size();
  queue_.push_back({std::move(frame), std::move(fds), 0});
  return flush();
}

Result<void> Wire::flush() {
  while (!queue_.empty()) {
    TRY(const bool whole, send_some(queue_.front()));
    if (!whole) return {};
    queued_ -= queue_.front().bytes.size();
    queue_.pop_front();
  }
  return {};
}

Result<bool> Wire::send_some(Outgoing& outgoing) {
  iovec piece{outgoing.bytes.data() + outgoing.sent, outgoing.bytes.size() - outgoing.sent};
  alignas(cmsghdr) ControlBuffer control{};
  msghdr packet{};
  packet.msg_iov = &piece;
  packet.msg_iovlen = 1;
  attach(packet, control, outgoing.fds);
  const ssize_t size = ::sendmsg(socket_.get(), &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (size < 0 && is_later(errno)) return false;
  if (size < 0) return fail_os(errno, "send a frame");
  outgoing.fds.clear();
  outgoing.sent += static_cast<std::size_t>(size);
  return outgoing.sent == outgoing.bytes.size();
}

Result<std::optional<ReceivedFrame>> Wire::receive() {
  if (at_end_) return std::nullopt;
  return transport_ == Transport::Packets ? receive_packet() : receive_from_stream();
}

Result<std::optional<ReceivedFrame>> Wire::receive_packet() {
  std::array<char, kMaxFrame> buffer;  // not initialised: the kernel fills what is used
  iovec piece{buffer.data(), buffer.size()};
  alignas(cmsghdr) ControlBuffer control{};
  msghdr packet{};
  packet.msg_iov = &piece;
  packet.msg_iovlen = 1;
  packet.msg_control = control.data();
  packet.msg_controllen = control.size();
  const ssize_t size = ::recvmsg(socket_.get(), &packet, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (size < 0 && is_later(errno)) return std::nullopt;
  if (size < 0 && errno != ECONNRESET) return fail_os(errno, "receive a frame");
  ReceivedFrame frame;
  frame.fds = take_fds(packet);
  if ((packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return fail(Code::Invalid, "a packet of more than {} bytes or {} descriptors", kMaxFrame,
                kMaxFrameFds);
  }
  if (size <= 0) {
    at_end_ = true;
    return std::nullopt;
  }
  frame.bytes.assign(buffer.data(), static_cast<std::size_t>(size));
  return frame;
}

Result<std::optional<ReceivedFrame>> Wire::receive_from_stream() {
  while (true) {
    TRY(const std::optional<std::size_t> whole, frame_size(partial_));
    if (whole && partial_.size() == *whole) {
      return ReceivedFrame{std::exchange(partial_, {}), {}};
    }
    // Never past the end of this frame, so that no more than one frame is ever held.
    const std::size_t have = partial_.size();
    const std::size_t missing = (whole ? *whole : kHeaderSize) - have;
    partial_.resize(have + missing);
    const ssize_t size = ::recv(socket_.get(), partial_.data() + have, missing, MSG_DONTWAIT);
    const int os_errno = errno;
    partial_.resize(have + static_cast<std::size_t>(size > 0 ? size : 0));
    if (size < 0 && is_later(os_errno)) return std::nullopt;
    if (size < 0 && os_errno != ECONNRESET) return fail_os(os_errno, "receive a frame");
    if (size > 0) continue;
    at_end_ = true;
    if (have > 0) return fail(Code::Invalid, "the peer ended in the middle of a frame");
    return std::nullopt;
  }
}

}  // namespace glovebox::guest
