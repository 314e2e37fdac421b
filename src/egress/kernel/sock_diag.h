// The connections of the boxes, read outside through sock_diag (netlink): how much each has
// carried, and when it ends.
//
// A socket that was handed in is the box's; a copy kept here would keep it open after the program
// has closed it, and its peer would wait for the end. So none is kept. The kernel tells of every
// TCP socket that is destroyed in the host's network, with its counters, and answers questions
// about one by its cookie (sock_diag).
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "egress/kernel/address.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <sys/types.h>

namespace glovebox::egress {

struct Counters {
  std::uint64_t bytes_out = 0;  // that the peer has acknowledged
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_queued = 0;  // that the kernel has taken, and the peer not acknowledged
};

// What one socket is called by the kernel's tables.
struct SocketName {
  Endpoint local;
  Endpoint peer;
  int domain = 0;
  std::uint64_t cookie = 0;
};

class Endings {
 public:
  using Ended = std::function<void(std::uint64_t cookie, Counters counters)>;

  static Result<Endings> open();

  BorrowedFd fd() const { return events_; }  // readable when something may have ended
  // Calls `ended` for each socket that was destroyed meanwhile, also of other programs. False:
  // there were more than the kernel keeps, and some are not told of; look() finds them.
  bool take(const Ended& ended) const;

  // A connection that its program has closed, or that was shut down both ways, carries nothing of
  // the program's any more, whatever the kernel has yet to do for it. Half of one still does.
  enum class Fate : std::uint8_t { Open, Over, Unknown };
  struct Look {
    Fate fate = Fate::Unknown;  // the kernel did not answer
    std::optional<Counters> counters;
  };
  Look look(const SocketName& name) const;

  // A socket of the host's network that listens or talks.
  struct Local {
    SocketName name;
    ino_t inode = 0;  // 0: no process has accepted it
    uid_t uid = 0;    // of the process that has
  };
  // All that have this port of their own, or any for 0.
  Result<std::vector<Local>> sockets_at(std::uint16_t port) const;
  // Ends a connection (SOCK_DESTROY), whichever process has it. False: this is for root alone, or
  // the kernel does not do it.
  bool destroy(const SocketName& name) const;

 private:
  Endings(UniqueFd events, UniqueFd questions)
      : events_(std::move(events)), questions_(std::move(questions)) {}

  UniqueFd events_;
  UniqueFd questions_;
};

}  // namespace glovebox::egress
