// Processes by a descriptor of them (pidfd_open(2)): its number is never given to another process,
// as that of a pid is.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <csignal>
#include <optional>

#include <sys/resource.h>
#include <sys/types.h>

namespace glovebox {

// `flags` are pidfd_open(2)'s. The descriptor is readable once the process has ended.
Result<UniqueFd> open_pidfd(pid_t pid, unsigned flags = 0);

// Sends SIGKILL. A process that has ended already is no failure.
Result<void> kill_process(BorrowedFd pidfd);

// How a child ended, and what it and the children it has waited for used.
struct Reaped {
  siginfo_t info{};
  struct rusage usage{};
};
// Waits for the end of a child and takes it from the process table. Nothing: it is no child of
// ours, or was reaped already.
std::optional<Reaped> reap_process(BorrowedFd pidfd);

// Whether a child has ended. It is left to be reaped.
bool has_ended(BorrowedFd pidfd);

}  // namespace glovebox
