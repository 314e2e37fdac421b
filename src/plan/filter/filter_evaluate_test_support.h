// Runs a compiled filter as data: what would the kernel answer to this system call? For tests, and
// to explain a refusal without provoking it.
//
// The interpreter is stricter than the kernel's. It knows the instructions that compile_filter()
// and libseccomp write, and takes everything else (another opcode, a jump or a fall off the end, a
// load outside seccomp_data, a division) for a Bug: such a program is not one of ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <linux/filter.h>
#include <linux/seccomp.h>

namespace glovebox::plan {

struct FilterRun {
  std::uint32_t action = SECCOMP_RET_KILL_PROCESS;  // a SECCOMP_RET_ value with its data
  std::size_t steps = 0;                            // instructions carried out, the return too

  friend bool operator==(const FilterRun&, const FilterRun&) = default;
};

FilterRun run_filter(std::span<const sock_filter> program, const seccomp_data& data);

// The action alone.
std::uint32_t evaluate_filter(std::span<const sock_filter> program, const seccomp_data& data);

}  // namespace glovebox::plan
