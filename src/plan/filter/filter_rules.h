// The rules that every box starts from: what ordinary programs need, and nothing that changes the
// box, reaches out of it or opens a large piece of the kernel.
//
// Every system call that has a name gets its verdict by name, so that none is decided by oversight:
// allowed; allowed for some arguments; refused with EPERM because it is dangerous; or absent, that
// is ENOSYS, where programs have a fallback for kernels without it. The reasons stand beside the
// names, in filter_calls.cpp and filter_rules.cpp.
#pragma once

#include "plan/filter/filter.h"

#include <span>
#include <string_view>

namespace glovebox::plan {

// Numbers differ between architectures and names do not, so one table serves all of them.
FilterRules default_filter_rules(Architecture architecture = kNativeArchitecture);

// Allows the calls of a group that is refused otherwise: one of authority::syscall_groups().
void bring_back(FilterRules& rules, std::string_view group);

// Changes them for a box that the connect broker serves: the named calls wait for the broker. TCP
// Fast Open by message is refused: it would connect a socket of the broker's in a call that names
// its address by pointer. A sendto(2) with an address waits too, so that a sender of datagrams
// learns why they do not arrive; so do sendmsg(2) and sendmmsg(2), which may have one in memory,
// unless they say by MSG_NOSIGNAL that they write to a stream.
void pass_to_broker(FilterRules& rules, std::span<const std::string_view> calls);

// Changes them for a box that sees Unix sockets of the host: connect(2) waits for the broker, and
// so does listen(2), by which it learns which sockets are the box's own. So does making a Unix
// datagram socket, which is refused: it sends to any path, with the path in memory.
void guard_unix_sockets(FilterRules& rules);

}  // namespace glovebox::plan
