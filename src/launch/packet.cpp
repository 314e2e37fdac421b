#include "launch/packet.h"

#include "launch/launcher_protocol.h"

#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>

namespace glovebox::launch {

Result<void> send_packet(BorrowedFd socket, std::span<const std::span<const std::byte>> parts,
                         std::span<const int> fds) {
  GLOVEBOX_CHECK(fds.size() <= kMaxSentDescriptors);
  std::vector<iovec> pieces;
  for (const auto& part : parts) {
    pieces.push_back({const_cast<std::byte*>(part.data()), part.size()});
  }
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxSentDescriptors)] = {};
  msghdr packet{};
  packet.msg_iov = pieces.data();
  packet.msg_iovlen = pieces.size();
  if (!fds.empty()) {
    packet.msg_control = control;
    packet.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&packet);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  while (::sendmsg(socket.get(), &packet, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return fail_os(errno, "send a packet");
  }
  return {};
}

Result<Packet> receive_packet(BorrowedFd socket, std::size_t limit) {
  Packet packet;
  packet.bytes.resize(limit);
  TRY(PacketView view, receive_packet_into(socket, packet.bytes));
  packet.bytes.resize(view.bytes.size());
  packet.fds = std::move(view.fds);
  return packet;
}

Result<PacketView> receive_packet_into(BorrowedFd socket, std::span<std::byte> buffer) {
  PacketView received;
  iovec piece{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)] = {};
  msghdr packet{};
  packet.msg_iov = &piece;
  packet.msg_iovlen = 1;
  packet.msg_control = control;
  packet.msg_controllen = sizeof(control);
  ssize_t size = -1;
  do {
    size = ::recvmsg(socket.get(), &packet, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return fail_os(errno, "receive a packet");
  for (cmsghdr* header = CMSG_FIRSTHDR(&packet); header != nullptr;
       header = CMSG_NXTHDR(&packet, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      received.fds.emplace_back(fd);
    }
  }
  if ((packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return fail(Code::Invalid, "a packet of more than {} bytes or {} descriptors", buffer.size(),
                kMaxDescriptors);
  }
  received.bytes = buffer.first(static_cast<std::size_t>(size));
  return received;
}

}  // namespace glovebox::launch
