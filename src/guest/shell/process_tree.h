// Who is whose child in the box's pid namespace, read from /proc.
//
// The answer is old when it arrives: processes start and end meanwhile. Code that kills by it asks
// again until nothing is left.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace glovebox::guest {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  char state = '?';
  std::uint64_t start_ticks = 0;  // since the machine started, in sysconf(_SC_CLK_TCK)
  bool operator==(const ProcessInfo&) const = default;
};

// The line of /proc/PID/stat. The name in it is the process's own choice and may hold anything.
std::optional<ProcessInfo> parse_stat(std::string_view line);

// Every process that can be seen. Zombies are included, as their children's parents.
Result<std::vector<ProcessInfo>> list_processes();

// The processes below `root` at any depth, without `root`. Only those in `among`.
std::vector<ProcessInfo> descendants_of(pid_t root, const std::vector<ProcessInfo>& among);

// What the clock of start_ticks shows at this moment.
std::uint64_t ticks_now();

}  // namespace glovebox::guest
