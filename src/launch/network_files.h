// How a box's network leaves it: descriptors that its first process hands out, and who takes them.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "plan/network_plan.h"

#include <vector>

namespace glovebox::launch {

// What a box with network hands out when it starts: the listener of its filter, and the sockets
// that it asks for names on, if its plan has a resolver.
struct NetworkFiles {
  UniqueFd listener;
  UniqueFd questions;    // datagrams
  UniqueFd connections;  // the same over TCP
};
// Takes the descriptors of one Network message apart; refused when they are not the planned ones.
Result<NetworkFiles> network_files(std::vector<UniqueFd> fds, const plan::NetworkPlan& plan);

// Who answers for the box's network: the connect broker, in the supervisor's loop.
class NetworkDelegate {
 public:
  virtual ~NetworkDelegate() = default;
  // Once, before the box's command runs.
  virtual Result<void> take(NetworkFiles files) = 0;
  // Readable when on_ready() has something to do.
  virtual BorrowedFd fd() const = 0;
  // An error says why the box must not go on.
  virtual Result<void> on_ready() = 0;
};

}  // namespace glovebox::launch
