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
enum class LimitKind : std::uint8_t { Wall, Memory, Pids, Cpu, Output, Disk };

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

// What a box with network hands out when it starts: the listener of its filter, and the sockets
// that it asks for names on, if its plan has a resolver.
struct NetworkFiles {
  UniqueFd listener;
  UniqueFd questions;    // datagrams
  UniqueFd connections;  // the same over TCP
};
// Takes the descriptors of one Network message apart; refused when they are not the planned ones.
Result<NetworkFiles> network_files(std::vector<UniqueFd> fds, const plan::NetworkPlan& plan);

// Who answers for the box's network: the connect broker, in the supervisor's loop.
class NetworkCompanion {
 public:
  virtual ~NetworkCompanion() = default;
  // Once, before the box's command runs.
  virtual Result<void> take(NetworkFiles files) = 0;
  // Readable when on_ready() has something to do.
  virtual BorrowedFd fd() const = 0;
  // An error says why the box must not go on.
  virtual Result<void> on_ready() = 0;
};

enum class Detail : std::uint8_t { Brief, Full };  // Full: read usage for a report

// Runs until the box has ended and its cgroup is gone. `signals` is a signalfd with the signals to
// pass on, or -1. A plan with a network needs a companion for it.
ExitReport supervise(Box box, UniqueFd status, const plan::LaunchPlan& plan, Streams streams,
                     int signals, Detail detail, NetworkCompanion* network = nullptr);

}  // namespace glovebox::launch
