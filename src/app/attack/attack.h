// Known ways out of a box, each tried for real: what is tried, how it is judged, and what outside
// would show that it worked.
//
// A try is a run of glovebox-probe (tests/probes) in a box of its own. It has held when the probe
// was refused and every canary is as it was. A probe that could not run proves nothing, and is
// counted as such.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace glovebox::app {

enum class Judge : std::uint8_t {
  Refused,     // the probe must meet an error
  Checks,      // the probe looks for something wrong, and must not find it
  Untouched,   // whatever the probe meets, the canaries decide
  Bounded,     // the box ends by a limit, or the probe meets one
  HeldBack,    // the probe makes `held` in a layered workspace; a commit must not take it over
  NotStarted,  // the words are a command that must not be found
};

// Words of a probe that begin with '@' stand for canaries and places: see Canaries::word().
struct Attack {
  int number;              // of its class, docs/reference/attacks.md
  std::string_view name;   // for people: what is tried
  std::string_view words;  // the probe and its arguments, separated by spaces
  Judge judge = Judge::Refused;
  std::string_view options = "";  // of `glovebox run`, in addition to the policy's
  std::string_view held = "";     // HeldBack: the path in the workspace
};

// A class that no probe tries, and why.
struct Exempt {
  int number;
  std::string_view reason;
};

inline constexpr int kClasses = 60;

std::span<const Attack> all_attacks();
std::span<const Exempt> all_exempt();

}  // namespace glovebox::app
