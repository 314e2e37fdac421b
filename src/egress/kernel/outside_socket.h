// The sockets that the broker makes outside and hands in.
//
// Such a socket lives in the host's network, and its new owner is hostile. It can send and receive,
// that is what it is for; it must not become a way to another peer. connect(2) and bind(2) are the
// broker's to carry out, but a socket can be made unconnected again, and then listen. So each
// carries a packet filter of its own, locked, that drops whatever does not come from the one peer
// it was made for: whatever is done to it, it gets packets of no other peer, so no other connection
// can come about.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "egress/kernel/address.h"

#include <chrono>
#include <cstdint>
#include <optional>

namespace glovebox::egress {

// The number of the network namespace that a socket belongs to; 0 when it is no such socket.
std::uint64_t network_of(BorrowedFd socket);
// The number that names a socket for as long as it lives.
std::uint64_t cookie_of(BorrowedFd socket);

struct SocketKind {
  int domain = 0;
  int type = 0;
};
// Nothing with errno set: it is no socket.
std::optional<SocketKind> kind_of(BorrowedFd socket);

// A TCP socket, not connected, non-blocking. Empty with errno set.
UniqueFd make_plain(int domain);
// The same with the options that the program has set on its own; made of `spare`, if there is one.
Result<UniqueFd> make_like(BorrowedFd original, int domain, UniqueFd spare = {});

// For a socket that will be connected to `peer`.
Result<void> hear_only(BorrowedFd socket, const Endpoint& peer);
// For a socket that will listen: it takes who comes, and cannot be used to go out.
Result<void> never_connect(BorrowedFd socket);

// How long a blocking connect of the program waits (SO_SNDTIMEO); nothing: as long as the kernel.
std::optional<std::chrono::microseconds> send_timeout(BorrowedFd socket);

enum class ConnectState : std::uint8_t { Done, UnderWay, Failed, Idle };
struct ConnectProgress {
  ConnectState state = ConnectState::Idle;
  int error = 0;  // Failed
};
// Where a connect of this socket stands. Takes the error away, as SO_ERROR does.
ConnectProgress progress_of(BorrowedFd socket);

}  // namespace glovebox::egress
