// Carries bytes from one descriptor to another, a bounded buffer at a time.
#pragma once

#include "base/unique_fd.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace glovebox::launch {

class Relay {
 public:
  enum class Direction : std::uint8_t { IntoBox, OutOfBox };

  // `from` is read without blocking when it is ours (a pipe we made, the terminal); `to` is written
  // in pieces small enough not to block once poll says that it can be written. Each end is owned or
  // borrowed: the caller's standard streams are borrowed.
  struct End {
    UniqueFd owned;
    int fd = -1;
    static End own(UniqueFd fd) {
      End end;
      end.fd = fd.get();
      end.owned = std::move(fd);
      return end;
    }
    static End borrow(int fd) {
      End end;
      end.fd = fd;
      return end;
    }
  };

  Relay(End from, End to, Direction direction)
      : from_(std::move(from)), to_(std::move(to)), direction_(direction) {}

  Direction direction() const { return direction_; }
  std::uint64_t bytes() const { return bytes_; }
  bool open() const { return !closed_; }
  // The errno by which bytes were lost, such as ENOSPC; 0 when none were. That the reader is gone
  // is no loss: it did not want them.
  int lost_by() const { return lost_by_; }

  // What to wait for: reading while the buffer is empty, writing while it is not. -1: nothing.
  int wait_read_fd() const { return closed_ || pending_ != 0 ? -1 : from_.fd; }
  int wait_write_fd() const { return closed_ || pending_ == 0 ? -1 : to_.fd; }

  // Reads at most `allowed` bytes if something is there. At the end of input the relay closes.
  void read_some(std::uint64_t allowed);
  void write_some();
  // Drops the last `count` bytes that were read and not yet written.
  void take_back(std::uint64_t count) {
    const auto drop = static_cast<std::size_t>(std::min<std::uint64_t>(count, pending_));
    pending_ -= drop;
    bytes_ -= drop;
  }
  // Passes on what is already there, and waits for the reader as long as it takes; for the end.
  void drain(std::uint64_t allowed);

 private:
  static constexpr std::size_t kBuffer = std::size_t{64} * 1024;
  // A pipe that poll calls writable takes this much without blocking (pipe(7), PIPE_BUF).
  static constexpr std::size_t kPiece = 4096;

  void close();

  End from_;
  End to_;
  Direction direction_;
  bool closed_ = false;
  int lost_by_ = 0;
  std::uint64_t bytes_ = 0;
  std::size_t start_ = 0;
  std::size_t pending_ = 0;
  std::unique_ptr<std::array<char, kBuffer>> buffer_ =
      std::make_unique_for_overwrite<std::array<char, kBuffer>>();
};

}  // namespace glovebox::launch
