// What a box sees of /proc besides its own processes. Everything there is about the whole machine:
// what is not needed is covered, also entries of kernels to come.
#include "plan/parts.h"

#include <algorithm>
#include <array>

namespace glovebox::plan {
namespace {

struct Kept {
  std::string_view name;
  std::string_view why;
};

constexpr std::array<Kept, 11> kKept{{
    {"cgroups", "runtimes look here for the limits of a container"},
    {"cpuinfo", "runtimes and libraries choose code by it"},
    {"filesystems", "libselinux reads it in many programs' start; mount and df"},
    {"loadavg", "make -l, uptime, top"},
    {"meminfo", "runtimes size their heaps by it"},
    {"stat", "counts processors for runtimes; top"},
    {"sys", "settings, which cannot be written; those of namespaces are the box's own"},
    {"sysvipc", "of the box's own ipc namespace"},
    {"uptime", "ps, top"},
    {"version", "the kernel's version, which uname says too"},
    {"vmstat", "free, vmstat and their libraries"},
}};

void append(std::string& list, const std::string& name) {
  if (!list.empty()) list += ' ';
  list += name;
}

}  // namespace

Step plan_proc_covers(const host::HostFacts& facts) {
  Step step{Op::CoverProc};
  for (const host::ProcEntry& entry : facts.proc) {
    if (std::ranges::count(kKept, entry.name, &Kept::name) != 0) continue;
    append(entry.kind == host::ProcEntry::Kind::File ? step.text : step.other, entry.name);
  }
  return step;
}

}  // namespace glovebox::plan
