// Which cgroup controllers a box can be put under here, and where its cgroup is made.
//
// Two layouts are supported alike. Version 1: one hierarchy per controller; the box's cgroup is
// made below the caller's own in each. Version 2: one hierarchy; a cgroup that holds processes
// cannot pass controllers on to children, so the box's cgroup is made beside the caller's own (or
// below the root).
#pragma once

#include "base/result.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace glovebox::host {

enum class CgroupVersion : std::uint8_t { None, V1, V2 };

struct CgroupFacts {
  CgroupVersion version = CgroupVersion::None;
  // Controller name ("memory", "pids", "cpu", "cpuacct") to the directory in which a box's cgroup
  // can be made. A controller that is missing here cannot be used by this caller. Version 2 has the
  // same directory for all, and always "cpuacct" (cpu.stat needs no controller).
  std::map<std::string, std::string, std::less<>> parents;
  std::string why_not;  // when empty of controllers: the sentence that says why, for people

  bool has(std::string_view controller) const { return parents.contains(controller); }
  friend bool operator==(const CgroupFacts&, const CgroupFacts&) = default;
};

std::string_view to_text(CgroupVersion version);

Result<CgroupFacts> read_cgroup_facts();

// The caller's own cgroup paths, from the text of /proc/self/cgroup: "memory" -> "/a/b", and "" for
// the unified hierarchy. Lines that do not parse are refused: the kernel writes no such line.
Result<std::map<std::string, std::string, std::less<>>> parse_own_cgroups(std::string_view text);

}  // namespace glovebox::host
