// Empty network namespaces, made ahead of need.
//
// Making one takes longer than all the rest of a launch together, so a serving launcher keeps some.
// Each is used by one box and never again: a used one remembers (counters, sockets in TIME_WAIT,
// routes it learned), and what it remembers would pass from one box to the next. They belong to the
// launcher's user namespace, so a box has no say over its devices.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

namespace glovebox::launch {

class NetworkPool {
 public:
  static constexpr std::size_t kTarget = 12;

  // Opens the pool; the calling process's own network namespace is the one it comes back to. Where
  // it could not come back the pool stays shut, and each box makes its own namespace.
  Result<void> open();

  // Adds one namespace, loopback up. False when the pool is full or not open.
  Result<bool> add_one();

  // The sockets inside that questions for names are asked on; port 53 needs the launcher's power.
  using Resolver = std::array<UniqueFd, 2>;

  // Puts this process into a pooled namespace, so that a clone inherits it. Nothing when none is
  // left.
  Result<std::optional<Resolver>> enter();
  // And back into its own. A call that failed half way may have left this process elsewhere, so it
  // is asked before each clone; in its own nothing is done.
  Result<void> leave();

 private:
  struct Ready {
    UniqueFd network;
    Resolver resolver;
  };

  UniqueFd own_;
  bool is_away_ = false;  // or may be
  std::vector<Ready> ready_;
};

}  // namespace glovebox::launch
