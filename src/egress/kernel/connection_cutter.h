// Taking a connection away from a box that has it.
//
// The broker keeps no copy of the sockets it hands in, so it looks for them where the box has them:
// in the descriptors of its processes, and of each thread that has a table of its own. One copy is
// enough, because shutdown(2) is done to the socket and not to the number.
//
// A search can miss one: it is in a message between two processes of the box, or in a call that
// began before its number was closed, or it is passed around faster than the search. So what a
// search found says nothing about what is left: the kernel's tables (sock_diag) do, and the caller
// of this looks there (Box::carry_out_cuts).
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>

#include <sys/types.h>

namespace glovebox::egress {

// The pid namespace of a thread, as its link in /proc reads; empty when it is gone.
std::string pid_namespace_of(pid_t thread);

struct WantedSocket {
  ino_t inode = 0;
  std::uint64_t cookie = 0;
};

// How many descriptors and threads one search looks at. A hostile box can have very many, and all
// boxes wait for the search. A box with more may be ended; other boxes are not delayed.
inline constexpr std::size_t kMostLooks = 1U << 17;

// Shuts these down, in whatever process of that pid namespace has one. Returns the cookies of those
// that were found. A process that is not dumpable hides its list of descriptors from an ordinary
// user, not the descriptors: then every number is tried.
std::set<std::uint64_t> shut_down_inside(const std::string& pid_namespace,
                                         std::span<const WantedSocket> sockets);

// The same in every process that this one may look into: a box can give a socket to another, in a
// message through a directory that both have.
std::set<std::uint64_t> shut_down_anywhere(std::span<const WantedSocket> sockets);

// The cookies of those that a process of another pid namespace has: they are not the box's.
std::set<std::uint64_t> find_outside(const std::string& pid_namespace,
                                     std::span<const WantedSocket> sockets);

}  // namespace glovebox::egress
