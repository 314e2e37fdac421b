// The calls of a box that wait for an answer: one end of seccomp's user notification.
//
// The kernel says which thread waits in which call with which numbers. What a pointer among them
// leads to is in the memory of the box, and is read once, with read_memory(). Between the reading
// and the acting the thread could have been replaced by another of the same id: still_waits() tells
// afterwards that it was not.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <sys/types.h>

namespace glovebox::egress {

struct WaitingCall {
  std::uint64_t id = 0;
  pid_t thread = 0;
  int number = 0;  // SYS_connect, SYS_bind, SYS_sendto and others
  std::array<std::uint64_t, 6> arguments{};
};

enum class OnExec : std::uint8_t { Keep, Close };

class Notifications {
 public:
  // Takes the listener of a filter.
  static Result<Notifications> open(UniqueFd listener);

  BorrowedFd fd() const { return listener_; }

  // The next call, when fd() is readable. Nothing: it is gone already.
  std::optional<WaitingCall> receive() const;
  bool still_waits(std::uint64_t id) const;

  // The call returns `value`, or fails with `error` when that is not 0. False: no thread waits any
  // more.
  bool answer(std::uint64_t id, std::int64_t value, int error) const;
  // The kernel carries the call out, with whatever is in the box's memory by then. Only for calls
  // that may do anything that the memory could say.
  bool let_through(std::uint64_t id) const;
  // Puts a descriptor in place of the box's number `at`. False as well when the box's thread does
  // not take it within a second.
  bool install(std::uint64_t id, BorrowedFd fd, int at, OnExec on_exec) const;

 private:
  explicit Notifications(UniqueFd listener) : listener_(std::move(listener)) {}

  UniqueFd listener_;
};

// Copies from the memory of the process that `thread` belongs to. How much was there, or -1.
ssize_t read_memory(pid_t thread, std::uint64_t address, std::span<std::byte> into);

// A pidfd of the process, through which its descriptors can be fetched.
UniqueFd open_process(pid_t thread);
// The root of its tree. Empty with errno set.
UniqueFd open_root_of(pid_t thread);
// A copy of one of its descriptors: the same open file. Empty with errno set.
UniqueFd fetch_descriptor(BorrowedFd process, int number);

}  // namespace glovebox::egress
