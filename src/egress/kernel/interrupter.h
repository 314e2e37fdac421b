// Ends calls of the broker's thread that wait.
//
// The broker works on copies of the box's descriptors: the same open files. Whether a call on one
// waits is the box's choice, whatever the broker has set a moment before:
//   - it takes O_NONBLOCK away again, and connect(2) waits for a listener that accepts nothing;
//   - it leaves the last reference of a socket with SO_LINGER to the broker, and close(2) waits for
//     a peer that reads nothing.
// Nothing that the broker could ask or set first helps: the box is faster once. So while the broker
// works, a timer sends its thread a signal every kPeriod, whose handler does nothing. The kernel
// then ends the call that waits, wherever it waits.
//
// So every call of that thread that may wait can meet EINTR while a Turn lives, those of the sinks
// (network_event.h) included, and is asked again or has it as its answer. Between turns no signal
// comes.
//
// The signal is the highest of the real-time signals that the process does not use when the first
// broker is opened. A program that takes it over later would take the broker's protection away.
#pragma once

#include "base/result.h"

#include <chrono>
#include <ctime>
#include <optional>

#include <sys/types.h>

namespace glovebox::egress {

class Interrupter {
 public:
  // How long a call waits at the most. Longer than what a box is charged for (call_backoff.h).
  static constexpr std::chrono::milliseconds kPeriod{15};

  Interrupter() = default;
  Interrupter(const Interrupter&) = delete;
  Interrupter& operator=(const Interrupter&) = delete;
  ~Interrupter();

  Result<void> open();
  int signal_number() const { return signal_; }

  // While it lives, calls of this thread that wait are ended. One may live inside another.
  class Turn {
   public:
    explicit Turn(Interrupter& interrupter);
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn();

   private:
    Interrupter& interrupter_;
  };

 private:
  Result<void> make_timer(pid_t thread);
  void set(std::chrono::nanoseconds period) const;
  void let_in() const;

  int signal_ = 0;
  std::optional<timer_t> timer_;
  pid_t thread_ = 0;  // that the timer's signals go to
  int depth_ = 0;
};

}  // namespace glovebox::egress
