// Where each kind of capability lives: which tree, which key, which facets; and the way back.
//
// This is the table that gives the kinds their meaning. The trees know nothing of paths or ports.
#pragma once

#include "authority/capability.h"
#include "authority/rule_tree.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::authority {

// One tree for each family of things; budgets live in none.
//
//   ground     key                               facets
//   Paths      components, root first            0 read, 1 write, 2 execute, 3 connect to a socket
//   Connect    names from the right, or bits     the ports
//   Listen     address bits                      the ports
//   Resolve    names from the right              0
//   Imports    dotted parts                      0
//   Variables  name, or name and value           0 pass on the caller's, 1 set
//   Commands   the command                       0 plain, 1 as a shell-like string
//   Secrets, Channels, Syscalls: the name; Clock, Random: the empty key; facet 0
enum class Ground : std::uint8_t {
  Paths,
  Connect,
  Listen,
  Resolve,
  Imports,
  Variables,
  Secrets,
  Commands,
  Clock,
  Random,
  Channels,
  Syscalls,
};
inline constexpr std::size_t kGroundCount = 12;

inline constexpr Facet kReadFacet = 0, kWriteFacet = 1, kExecFacet = 2, kUnixFacet = 3;

// The key of a path in its tree.
std::string path_key(const AbsolutePath& path);

// Where a rule speaks. Writing implies reading, so to allow writing is to speak of facets 0-1, and
// to deny reading is too; to deny writing speaks of facet 1 alone. That is why the effect matters.
struct Place {
  Ground ground;
  Clause clause;
};

// The places a rule speaks about: none for a budget, one for most, one per command for Subprocess.
std::vector<Place> places_of(const Rule& rule);

// The facet that decides about a capability itself, apart from what it implies: for WritePath the
// one of writing. For the network it is the range of ports.
std::vector<Place> points_of(const Capability& capability);

// The rules that turn the verdicts `before` (of the node above) into `map` at `key`: the fewest
// that places_of() reads back to exactly `map`.
std::vector<Rule> rules_at(Ground ground, std::string_view key, const FacetMap& map,
                           const FacetMap& before);

// Where facet 1 implies facet 0 (writing: reading), a map must not allow the one and not the other,
// nor deny facet 0 and leave facet 1 open to be granted by another source. The function makes it
// so; for the other grounds it does nothing.
RuleTree::Settle settle_for(Ground ground);

}  // namespace glovebox::authority
