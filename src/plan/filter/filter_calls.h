// The system calls whose verdict does not depend on their arguments, with the reasons beside them.
// Those that depend on them are in filter_rules.cpp. Every call that has a name is in one of these
// places, and in one alone.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace glovebox::plan {

struct SyscallNumber {
  std::string_view name;
  int x86_64;
  int aarch64;
};
inline constexpr int kNoCall = -1;  // the architecture has no such call

// Calls that a box has only when the group is granted (authority::Syscalls).
struct CallGroup {
  std::string_view name;
  std::span<const SyscallNumber> calls;
  std::uint16_t error;  // what they say otherwise
};

std::span<const SyscallNumber> allowed_calls();
std::span<const SyscallNumber> refused_calls();  // EPERM: dangerous
std::span<const SyscallNumber> absent_calls();   // ENOSYS: programs do without them
std::span<const CallGroup> call_groups();

}  // namespace glovebox::plan
