// The cgroup of a box that runs, to lower its limits.
//
// The launcher makes a box's cgroup and removes it; its name is the launcher's secret. It is found
// through the box's first process, which is in it, and its limits are then files that the
// launcher's user may write.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "plan/launch_plan.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace glovebox::session {

class RunningCgroup {
 public:
  // `init` is the pidfd of the box's first process; both are borrowed.
  RunningCgroup(BorrowedFd init, const plan::CgroupPlan& plan) : init_(init), plan_(plan) {}

  // Code::Unsupported when the box has no such limit to lower. Version 1 refuses to go below what
  // is in use; version 2 makes room by force, and a box that cannot shrink ends by its limit.
  Result<void> lower_memory(std::uint64_t bytes) const;
  // Processes that are there stay; the next one too many ends the box, as ever.
  Result<void> lower_pids(std::uint64_t count) const;
  Result<void> lower_cpus(std::uint64_t milli) const;

 private:
  Result<UniqueFd> open_controller(std::string_view controller) const;
  Result<std::string> own_path(std::string_view controller) const;

  BorrowedFd init_;
  const plan::CgroupPlan& plan_;
};

}  // namespace glovebox::session
