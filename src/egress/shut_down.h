// Taking a connection away from a box that has it.
//
// The broker keeps no copy of the sockets it hands in, so it looks for them where the box has them:
// in the descriptors of its processes. One copy is enough, because shutdown(2) is done to the
// socket and not to the number. A box can hide a socket for a while, in a message between two of
// its own; whoever cuts looks again later (Box::carry_out_cuts).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

namespace glovebox::egress {

// The pid namespace of a thread, as its link in /proc reads; empty when it is gone.
std::string pid_namespace_of(pid_t thread);

// Shuts the sockets with these inodes down, in every process of that pid namespace that has one.
// Returns how many descriptors were found. A process that is not dumpable hides its list of
// descriptors from an ordinary user, not the descriptors: then every number is tried.
std::size_t shut_down_inside(const std::string& pid_namespace, const std::vector<ino_t>& sockets);

// The sockets of the network namespace of this process that listen or talk at a TCP port of its
// own, by inode. Those that nobody has accepted are gone with the one that listens.
std::vector<ino_t> sockets_in_use_at(std::uint16_t port);

}  // namespace glovebox::egress
