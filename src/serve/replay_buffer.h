// The last events of a stream, for a client that lost its connection.
//
// Events have numbers that count from 1 without a gap. The buffer is bounded in bytes, and what is
// dropped is told: it drops only what was sent to a client before. What was not sent yet is never
// dropped; when a quarter of the buffer is full of it, the writer has to wait. The rest is for
// what was sent: a client that is gone has not had all of that.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace glovebox::serve {

class ReplayBuffer {
 public:
  explicit ReplayBuffer(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // Whole events of the standard form, one after the other, each with the empty line at its end.
  void add(std::string_view events);

  // Whether `id` can be followed by what is here: the event after it is kept, or still to come.
  bool can_follow(std::uint64_t id) const { return id + 1 >= first_id_ && id < next_id_; }
  // From the event after `id` on: what is sent next. Call it when can_follow() says so.
  void rewind(std::uint64_t id);

  // The events to send, at most about `most` bytes of them but one at least if there is any; they
  // count as sent.
  std::string take(std::size_t most);

  bool has_unsent() const { return next_to_send_ < next_id_; }
  bool is_full() const { return unsent_bytes_ >= most_bytes_ / 4; }
  std::uint64_t first_id() const { return first_id_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void drop_sent();

  std::size_t most_bytes_;
  std::deque<std::string> events_;  // first_id_ ... next_id_ - 1
  std::uint64_t first_id_ = 1;
  std::uint64_t next_id_ = 1;
  std::uint64_t next_to_send_ = 1;
  std::size_t bytes_ = 0;
  std::size_t unsent_bytes_ = 0;
};

}  // namespace glovebox::serve
