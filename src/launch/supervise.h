// Watches over a started box until it ends: passes bytes and signals, keeps the limits that need a
// clock or a counter outside, and says in the end what happened.
//
// Everything that arrives from the box is hostile: a status message of a wrong shape ends the box.
// One thread, one poll loop; a slow reader of the output slows the box down and costs no memory.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "launch/launcher.h"
#include "launch/relay.h"
#include "plan/launch_plan.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::launch {

enum class EndReason : std::uint8_t {
  Exited,    // the command ended by itself
  Signaled,  // a signal ended it
  Limit,     // a limit did, see `limit`
  Refused,   // it could not be executed: see `problem`
  Failed,    // the box broke: see `problem`
};
enum class LimitKind : std::uint8_t { Wall, Memory, Pids, Cpu, Output };

std::string_view to_text(EndReason reason);
std::string_view to_text(LimitKind limit);

struct Usage {
  std::chrono::nanoseconds wall{0};
  std::optional<std::uint64_t> cpu_ns;
  std::optional<std::uint64_t> peak_memory_bytes;
  std::optional<std::uint64_t> output_bytes;  // known when the output was relayed
};

struct ExitReport {
  EndReason reason = EndReason::Failed;
  int exit_code = 125;  // as `glovebox run` returns it
  int signal = 0;
  std::optional<LimitKind> limit;
  std::string problem;  // a sentence, for Refused and Failed
  Usage usage;
  std::vector<StepTime> times;
};

// The caller's side of the box's standard streams.
struct Streams {
  std::vector<Relay> relays;  // pipes that carry stdin, stdout or stderr
  bool has_terminal = false;  // the box opens a terminal; it arrives with the first message
  int terminal_input = -1;    // caller's descriptors to connect it with
  int terminal_output = -1;
};

enum class Detail : std::uint8_t { Brief, Full };  // Full: read usage for a report

// Runs until the box has ended and its cgroup is gone. `signals` is a signalfd with the signals to
// pass on, or -1.
ExitReport supervise(Box box, UniqueFd status, const plan::LaunchPlan& plan, Streams streams,
                     int signals, Detail detail);

}  // namespace glovebox::launch
