// A box that was started, as its launcher holds it.
#pragma once

#include "base/unique_fd.h"
#include "launch/cgroup.h"
#include "launch/uid_lease.h"

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

namespace glovebox::launch {

struct StepTime {
  std::string step;
  std::uint64_t ns = 0;
};

// A started box. Its destructor kills it; waiting for it is its supervisor's work.
struct Box {
  Box() = default;
  Box(Box&&) = default;
  Box& operator=(Box&&) = delete;
  ~Box() { kill(); }

  UniqueFd init;  // pidfd
  pid_t pid = 0;
  Cgroup cgroup;
  UidLease uid;
  std::uint64_t cpu_limit_ns = 0;  // for the supervisor, which watches the cgroup; 0: none
  std::vector<StepTime> times;     // what the launcher's own part took
  bool was_parked = false;         // it was begun before it was asked for

  void kill() const;
  // For a box that has no supervisor yet.
  void kill_and_reap() const;
};

}  // namespace glovebox::launch
