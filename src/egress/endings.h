// The connections of the boxes, seen from outside: how much each has carried, and when it ends.
//
// A socket that was handed in is the box's; a copy kept here would keep it open after the program
// has closed it, and its peer would wait for the end. So none is kept. The kernel tells of every
// TCP socket that is destroyed in the host's network, with its counters, and answers questions
// about one by its cookie (sock_diag).
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "egress/address.h"

#include <cstdint>
#include <functional>
#include <optional>

namespace glovebox::egress {

struct Counters {
  std::uint64_t bytes_out = 0;
  std::uint64_t bytes_in = 0;
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
  // Calls `ended` for each socket that was destroyed meanwhile, whoever's it was. False: there were
  // more than the kernel keeps, and some are not told of; look() finds them.
  bool take(const Ended& ended) const;

  struct Look {
    bool open = false;  // the program still has it; it may be closing otherwise
    Counters counters;
  };
  // Nothing: it is gone.
  std::optional<Look> look(const SocketName& name) const;
  // Ends a connection, whoever has it. False: this is for root alone, or the kernel does not do it.
  bool destroy(const SocketName& name) const;

 private:
  Endings(UniqueFd events, UniqueFd questions)
      : events_(std::move(events)), questions_(std::move(questions)) {}

  UniqueFd events_;
  UniqueFd questions_;
};

}  // namespace glovebox::egress
