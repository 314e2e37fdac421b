// Bytes that pass through the agent: a terminal's, and everything over a byte-stream transport.
//
// A flow holds at most one chunk. When its receiver is not ready it reads no further, so that a
// slow reader slows the writer and the agent's memory stays as it is.
#pragma once

#include "base/unique_fd.h"
#include "guest/protocol/protocol.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace glovebox::guest {

enum class FlowState : std::uint8_t {
  Dry,      // everything that was there has passed
  Blocked,  // the receiver is not ready for what is there
  Ended,    // the source is over, and everything has passed; or the receiver is gone
};

// From a descriptor into frames, as far as there is credit.
class OutFlow {
 public:
  // Takes a chunk, or says false and is not given more until asked to again.
  using Send = std::function<bool(std::string_view chunk)>;

  explicit OutFlow(UniqueFd from) : from_(std::move(from)) {}

  BorrowedFd from() const { return from_; }
  void add_credit(std::uint64_t bytes);
  // `may_send` is asked before each chunk is read.
  FlowState move(const std::function<bool()>& may_send, const Send& send);

 private:
  UniqueFd from_;
  std::uint64_t credit_ = kInitialCredit;
};

// From frames into a descriptor. The sender keeps to its credit, so what is held is bounded by it.
class InFlow {
 public:
  explicit InFlow(UniqueFd to) : to_(std::move(to)) {}

  BorrowedFd to() const { return to_; }
  // False when the sender has exceeded its credit.
  bool put(std::string_view bytes);
  void end() { ending_ = true; }
  FlowState move();
  // How much has passed since this was last asked: the credit to give back.
  std::uint64_t take_passed() { return std::exchange(passed_, 0); }

 private:
  UniqueFd to_;
  std::string held_;
  std::uint64_t passed_ = 0;
  bool ending_ = false;
};

// From one descriptor to another.
class Relay {
 public:
  Relay(UniqueFd from, UniqueFd to) : from_(std::move(from)), to_(std::move(to)) {}

  BorrowedFd from() const { return from_; }
  BorrowedFd to() const { return to_; }
  FlowState move();

 private:
  UniqueFd from_;
  UniqueFd to_;
  std::string held_;
};

}  // namespace glovebox::guest
