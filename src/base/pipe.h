// Anonymous pipes and connected pairs of sockets. All of them are close-on-exec, and wait.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

namespace glovebox {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};
// Each end can be told not to wait, without the other noticing.
Result<Pipe> open_pipe();

// Two sockets that are connected with each other, of the Unix family.
struct SocketPair {
  UniqueFd ours;
  UniqueFd theirs;
};
// `type` is SOCK_SEQPACKET, which keeps messages apart, or SOCK_STREAM.
Result<SocketPair> open_socket_pair(int type);

Result<void> set_nonblocking(BorrowedFd fd);
// A copy with a number above those of the standard streams.
Result<UniqueFd> duplicate_fd(BorrowedFd fd);

}  // namespace glovebox
