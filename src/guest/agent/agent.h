// The session agent: what PID 1 of a session's box does.
//
// It holds no authority that the box does not have. It starts runs and file jobs, reaps, passes
// signals on, and speaks frames (protocol.h) over the one socket it is given. Code in the box has
// the same identity and may end or corrupt what the agent does; the supervisor then ends this one
// session. As PID 1 its end is the end of every process in the box.
//
// One thread, one epoll loop, no allocation that grows with what runs print: output goes through
// pipes that the supervisor reads, or as far as the supervisor has given credit.
#pragma once

#include "base/unique_fd.h"
#include "guest/protocol/protocol.h"

#include <string>
#include <vector>

namespace glovebox::guest {

struct AgentOptions {
  // Connected to the supervisor: SOCK_SEQPACKET for Packets, any byte stream for Stream.
  UniqueFd socket;
  Transport transport = Transport::Packets;
  // Where the agent may make its private directory; the first that can be written is used.
  std::vector<std::string> scratch = {"/run", "/tmp", "/dev/shm"};
};

// Serves one supervisor until it says Shutdown or is gone. The result is an exit status: 0 when the
// supervisor ended it, 1 when it broke the protocol or the agent could not work.
//
// The calling process must have one thread and no child that it wants to reap itself. Descriptors
// 0, 1 and 2 become /dev/null; all others must be close-on-exec. Signals are blocked.
int run_agent(AgentOptions options);

}  // namespace glovebox::guest
