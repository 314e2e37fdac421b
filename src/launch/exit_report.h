// Why a box ended, and what it used: values that records, answers and reports share. Includes
// nothing else of ours.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace glovebox::launch {

enum class EndReason : std::uint8_t {
  Exited,    // the command ended by itself
  Signaled,  // a signal ended it
  Limit,     // a limit did, see `limit`
  Refused,   // it could not be executed: see `problem`
  Failed,    // the box broke: see `problem`
};
enum class LimitKind : std::uint8_t { Wall, Memory, Pids, Cpu, Output, Disk };

std::string_view to_text(EndReason reason);
std::string_view to_text(LimitKind limit);

struct Usage {
  std::chrono::nanoseconds wall{0};
  std::optional<std::uint64_t> cpu_ns;
  std::optional<std::uint64_t> peak_memory_bytes;
  std::optional<std::uint64_t> output_bytes;  // known when the output was relayed
};

}  // namespace glovebox::launch
