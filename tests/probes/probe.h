// What every probe shares. A probe is one function that tries one thing inside a box and returns
// 0 when it succeeded or the errno it met. `glovebox-probe NAME ARGS...` runs it, prints what it
// saw as lines "NAME: ...", and exits with that number, so a test can tell "the kernel said EROFS"
// from "the box never started".
//
// The program is static and links nothing of the product: what it reports does not depend on the
// libraries that a box happens to show, and a bug in the product cannot hide itself here.
#pragma once

#include <span>
#include <string_view>

namespace glovebox::probe {

// The arguments after the probe's name.
using Args = std::span<char* const>;

struct Probe {
  std::string_view name;
  int (*run)(Args);
  std::string_view tries;  // one line for `glovebox-probe --list`
};

// Called wrongly: the test is broken, not the box. Above every errno that a probe can meet on
// purpose, below the codes that glovebox itself uses (124 to 127).
inline constexpr int kUsage = 119;

// Prints one line "NAME: ..." at once, so that it is seen even if the next act kills the process.
[[gnu::format(printf, 1, 2)]] void say(const char* format, ...);

// 0 for a result that is not negative, else errno.
int met(long result);

// Argument `index`, or the end of the process with kUsage.
const char* text(Args args, std::size_t index);
long number(Args args, std::size_t index);
// Argument `index` if it is there.
const char* text_or(Args args, std::size_t index, const char* fallback);

// One table for each theme; main.cpp joins them.
std::span<const Probe> file_probes();
std::span<const Probe> mount_probes();
std::span<const Probe> namespace_probes();
std::span<const Probe> process_probes();
std::span<const Probe> network_probes();
std::span<const Probe> unix_probes();
std::span<const Probe> hold_probes();
std::span<const Probe> syscall_probes();
std::span<const Probe> architecture_probes();
std::span<const Probe> identity_probes();
std::span<const Probe> descriptor_probes();
std::span<const Probe> resource_probes();
std::span<const Probe> terminal_probes();
std::span<const Probe> ipc_probes();
std::span<const Probe> exec_probes();
std::span<const Probe> wall_probes();
std::span<const Probe> egress_probes();
std::span<const Probe> proof_probes();
std::span<const Probe> name_probes();
std::span<const Probe> neighbour_probes();
std::span<const Probe> trap_probes();

}  // namespace glovebox::probe
