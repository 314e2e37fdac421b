// The packet filters (SO_ATTACH_BPF, SO_LOCK_FILTER) that lock handed-in sockets to their peers,
// made once for a peer that is connected to often.
//
// A classic filter is translated anew for every socket, which takes as long as a quarter of the
// broker's work on a connect. The kernel keeps a program that was loaded with bpf(2) for as long as
// there is a descriptor of it, and attaching that is nothing. Loading one takes longer than
// many classic ones, so it is done for a peer that comes a second time, when no call waits, and not
// often: a box chooses its peers. Only root may load programs; without that everything is as
// before.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "egress/kernel/address.h"

#include <chrono>
#include <vector>

namespace glovebox::egress {

class PeerFilters {
 public:
  static constexpr std::size_t kMost = 64;  // peers that are remembered; the oldest goes first
  static constexpr std::chrono::milliseconds kPause{50};  // between two programs that are loaded

  // Locks a socket that will be connected to `peer`: it gets packets of no other peer
  // (outside_socket.h).
  Result<void> hear_only(BorrowedFd socket, const Endpoint& peer);
  // Remembers the peer. To be called when no call waits.
  void remember(const Endpoint& peer);

  bool has_program(const Endpoint& peer) const;

 private:
  struct Known {
    Endpoint peer;
    UniqueFd program;  // from the second time on
  };

  std::vector<Known> known_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace glovebox::egress
