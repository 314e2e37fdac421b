// Whether another process still has a socket that we close: its reference count, as far as the
// kernel tells.
//
// A program may have copies of the number that it connects (dup, fork), and each of them means the
// old socket. Looking through /proc for them takes as long as the whole connect, and nearly always
// there are none. The kernel knows how many there are and does not say; but it takes a file out of
// every epoll when its last reference goes. So the socket is put into an epoll, closed, and the
// epoll asked whether it is still there: a socket that is not connected always has something to
// say.
#pragma once

#include "base/epoll.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace glovebox::egress {

class LastReference {
 public:
  static Result<LastReference> open();

  // Closes a TCP socket that is neither connected nor listening. True: no process has it any more.
  // False: one has, or it cannot be told.
  bool close(UniqueFd socket);

 private:
  explicit LastReference(Epoll epoll) : epoll_(std::move(epoll)) {}

  Epoll epoll_;  // empty but for the one that is being asked about
};

}  // namespace glovebox::egress
