// What the box's init and its supervisor say to each other, over a SOCK_SEQPACKET pair.
//
// Fixed layout, fixed size, one message per packet. The supervisor treats every message as hostile:
// a wrong size, kind or order ends the box. File descriptors come along with three messages, which
// are sent before any untrusted code has run a single instruction that could reach init: the
// terminal of a box that asked for one with Started, what the connect broker needs with Network,
// and the layers that lie in the box's memory with Layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace glovebox::launch {

inline constexpr std::uint32_t kTimedSteps = 192;
inline constexpr std::uint32_t kMaxInterpreter = 128;

enum class MessageKind : std::uint32_t {
  StepFailed = 1,  // step, os_errno: nothing has run
  TreeFailed,      // step: index of the tree, os_errno: nothing has run
  ExecFailed,      // exec_problem, os_errno: nothing has run
  Started,         // the command has been executed; times are valid
  Exited,          // wait_status
  Network,         // before Started: the filter's listener, and the resolver's sockets if planned
  Layers,          // before Started: directories, in the order of the plan's steps
};
inline constexpr std::size_t kNetworkFds = 3;
inline constexpr std::size_t kMaxAttachedFds = 16;

enum class ExecProblem : std::uint32_t {
  None,
  NotFound,
  NotAllowed,
  InterpreterMissing,
  OtherArchitecture,
  NotAProgram,
  Other,
};

struct Message {
  MessageKind kind;
  std::uint32_t step;  // counted through the plan's early, base and box lists
  std::int32_t os_errno;
  std::int32_t wait_status;
  ExecProblem exec_problem;
  char interpreter[kMaxInterpreter];  // with InterpreterMissing: what a script asked for
  std::uint32_t timed;                // how many entries of `times` are valid
  std::uint32_t times[kTimedSteps];   // ns each step took; the last is the command's exec
};
static_assert(std::has_unique_object_representations_v<Message>);

// The other way.
struct Order {
  std::uint32_t kind;
  std::int32_t signal;
};
inline constexpr std::uint32_t kOrderSignal = 1;  // pass a signal on to the command
inline constexpr std::uint32_t kOrderJoin = 2;    // before the start: the cgroups, as descriptors

// What a parked box waits for, on a socket of its own that only the launcher has the other end of:
// one packet with this, and the plan's bytes after it. With it come the status socket, the standard
// streams and the trees of the plan, in this order.
struct HandOut {
  std::uint32_t magic;
  std::uint32_t trees;
  std::uint64_t zero;  // the plan's bytes are aligned to 8
};
static_assert(std::has_unique_object_representations_v<HandOut>);
inline constexpr std::uint32_t kHandOutMagic = 0x4b524150;  // "PARK"
inline constexpr std::uint32_t kParkedWord = 1;             // the other way: it waits
inline constexpr std::size_t kMaxHandedBytes = 64U << 10;
inline constexpr std::size_t kMaxHandedTrees = 64;
inline constexpr std::size_t kHandedFiles = 4;        // besides the trees
inline constexpr std::size_t kMaxHandedTexts = 1024;  // arguments, environment, candidates

}  // namespace glovebox::launch
