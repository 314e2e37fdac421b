// Copies of a descriptor (dup) and epoll entries: what else in a program refers to a socket that
// the broker is about to replace.
//
// The new socket takes the old one's number. A copy of the number (dup) would go on meaning the old
// socket, and so would an epoll that the old one was put into before connect(2): Netty, Asio and
// nginx do that. Both are found in /proc and mended, so that the program cannot tell.
//
// Only the process that connects is looked at: no call changes the descriptors of another one. A
// copy that was given away before (to a child, by a message) keeps the unconnected socket.
#pragma once

#include "base/unique_fd.h"

#include <cstdint>
#include <vector>

#include <sys/types.h>

namespace glovebox::egress {

// One entry of an epoll: who watches which number, for what, and what it is told then.
struct EpollEntry {
  int epoll = -1;  // the program's number of the epoll
  int watched = -1;
  std::uint32_t events = 0;
  std::uint64_t data = 0;
  friend bool operator==(const EpollEntry&, const EpollEntry&) = default;
};

struct Descriptor {
  int number = -1;
  bool closes_on_exec = false;
  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};

struct References {
  std::vector<Descriptor> numbers;  // all that mean this socket, the one it was found by included
  std::vector<EpollEntry> entries;
  bool too_many = false;  // more numbers than kMostCopies; then the rest was not looked for
};

// Whether the number closes on exec; only that is read when nothing else is needed.
bool closes_on_exec(pid_t thread, int number);

// Everything in the process of `thread` that refers to the socket with that inode: among the first
// kMostNumbers descriptors, and of epolls in the first kMostEpolls, kMostInfo bytes of text in all.
// A hostile process can have very many, and everybody waits for the search, and for each copy to be
// replaced.
inline constexpr std::size_t kMostNumbers = 8192;
inline constexpr std::size_t kMostCopies = 16;
inline constexpr std::size_t kMostEpolls = 32;
inline constexpr std::size_t kMostInfo = 4U << 20;
References find_references(pid_t thread, ino_t socket);

// Puts `socket` into the epolls in place of what they had. Returns how many took it.
std::size_t watch_instead(BorrowedFd process, const std::vector<EpollEntry>& entries,
                          BorrowedFd socket);

}  // namespace glovebox::egress
