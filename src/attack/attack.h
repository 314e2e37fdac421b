// Known ways out of a box, each tried for real: what is tried, how it is judged, and what outside
// would show that it worked.
//
// A try is a run of glovebox-probe (tests/probes) in a box. It has held when the probe was refused
// and every canary is as it was. A probe that could not run proves nothing, and is counted as such.
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
  Transfers,   // files are copied in and out at `held` meanwhile; the canaries decide
  Reloads,     // policies are read again meanwhile, broken ones too; the canaries decide
  Quiet,       // what is told outside of the refusals must stay short
  Plain,       // the probe makes odd names in one; what is listed of them must be plain text
  Distinct,    // two boxes print what they must not share: no line may be the same
  NotStarted,  // the words are a command that must not be found
  Rejected,    // no box may be made with these options at all
};

// Where an attack means anything.
enum class Where : std::uint8_t {
  Everywhere,
  Run,       // boxes of one command: it is about a terminal, or words of `run`
  Sessions,  // boxes that stay
  Shells,    // both of these: it is about a workspace, or about how a box is asked for
  Tools,     // the shell of an MCP server
  Python,    // the words are code for the interpreter, which must end in an error
};

// Words of a probe that begin with '@' stand for canaries and places: see Canaries::word().
struct Attack {
  int number;              // of its class, docs/reference/attacks.md
  std::string_view name;   // for people: what is tried
  std::string_view words;  // the probe and its arguments, separated by spaces
  Judge judge = Judge::Refused;
  std::string_view options = "";  // of `glovebox run`, in addition to the policy's
  // HeldBack: paths in the workspace, separated by spaces; -PATH is one that the probe removes.
  std::string_view held = "";
  Where where = Where::Everywhere;
  std::string_view without = "";  // a part of the kernel that is taken from glovebox: kMissing
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
