// Anonymous pipes.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

namespace glovebox::guest {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

// Both ends wait; each can be told not to, without the other noticing.
Result<Pipe> open_pipe();
Result<void> set_nonblocking(BorrowedFd fd);
Result<UniqueFd> duplicate_fd(BorrowedFd fd);

}  // namespace glovebox::guest
