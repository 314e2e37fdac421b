// One packet with descriptors on a SOCK_SEQPACKET socket.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <cstddef>
#include <span>
#include <vector>

namespace glovebox::launch {

struct Packet {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> fds;
};
// The same in a buffer of the receiver's.
struct PacketView {
  std::span<const std::byte> bytes;
  std::vector<UniqueFd> fds;
};

// Sends all parts as one packet.
Result<void> send_packet(BorrowedFd socket, std::span<const std::span<const std::byte>> parts,
                         std::span<const int> fds);

// Receives one packet of at most `limit` bytes and kMaxDescriptors descriptors; more is an error,
// not a cut. An empty `bytes` means that the peer has closed.
Result<Packet> receive_packet(BorrowedFd socket, std::size_t limit);
Result<PacketView> receive_packet_into(BorrowedFd socket, std::span<std::byte> buffer);

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace glovebox::launch
