// Processes in a row that hand a byte on and back: what the kernel alone takes for as many
// wake-ups.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <sys/types.h>

namespace glovebox::bench {

class Relay {
 public:
  static Result<Relay> start(int processes);

  Relay(Relay&& other) noexcept;
  Relay& operator=(Relay&&) = delete;
  ~Relay();

  Result<void> there_and_back();

 private:
  Relay() = default;

  UniqueFd first_;
  pid_t pid_ = -1;
};

}  // namespace glovebox::bench
