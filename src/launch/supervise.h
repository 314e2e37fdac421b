// Watches over a started box until it ends: passes bytes and signals, keeps the limits that need a
// clock or a counter outside, and says in the end what happened.
//
// Everything that arrives from the box is hostile: a status message of a wrong shape ends the box.
// One thread, one poll loop; a slow reader of the output slows the box down and costs no memory.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "launch/box.h"
#include "launch/exit_report.h"
#include "launch/network_files.h"
#include "launch/relay.h"
#include "plan/launch_plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::launch {

struct ExitReport {
  EndReason reason = EndReason::Failed;
  int exit_code = 125;  // as `glovebox run` returns it
  int signal = 0;
  std::optional<LimitKind> limit;
  std::string problem;  // a sentence, for Refused and Failed
  Usage usage;
  std::vector<StepTime> times;
  // What was written into the layers that the box handed out (plan::handed_layers), in that order.
  // Memory goes with the last descriptor of it.
  std::vector<UniqueFd> layers;
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
// pass on, or -1. A plan with a network needs a delegate for it.
ExitReport supervise(Box box, UniqueFd status, const plan::LaunchPlan& plan, Streams streams,
                     int signals, Detail detail, NetworkDelegate* network = nullptr);

}  // namespace glovebox::launch
