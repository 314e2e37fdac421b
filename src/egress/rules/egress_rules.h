// Whether an authority lets a box connect somewhere, look up a name, or open a port. Pure: values
// in, a verdict out, and with a refusal the capability that would have allowed it.
#pragma once

#include "authority/authority_set.h"
#include "egress/kernel/address.h"
#include "plan/network_plan.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace glovebox::egress {

struct ConnectVerdict {
  enum class Kind : std::uint8_t {
    Inside,   // the box's own loopback
    Outside,  // granted
    Refused,
  };
  Kind kind = Kind::Refused;
  std::string
      name;  // Outside: the name that the grant is on; Refused: the name it was looked up by
  std::string missing;  // Refused: "connect=api.example.com:443"
  std::string why;      // Refused: a clause for people
  friend bool operator==(const ConnectVerdict&, const ConnectVerdict&) = default;
};

// `names` are those that were looked up for this box and gave this address. A name's grant reaches
// public addresses alone; every other kind of place needs a rule on an address or network, which
// for loopback, the neighbours' and reserved addresses lies in that range and is no wider. A denial
// of the address holds under every name.
ConnectVerdict decide_connect(const authority::AuthoritySet& authority, const Endpoint& to,
                              std::span<const std::string> names);

// The ports by which it is told whether a name is granted for any: a rule that grants some or takes
// some away has its ends among them. Found once for an authority, because a box asks for names as
// often as it likes.
std::vector<std::uint16_t> telling_ports(const authority::AuthoritySet& authority);

// Whether some grant needs this name's addresses. Anything that is not a plain name is not looked
// up.
bool may_look_up(const authority::AuthoritySet& authority, std::span<const std::uint16_t> ports,
                 const std::string& name);

// Whether a box that has `own` places may have one more, of `all` that are taken and `most` that
// there are. Each keeps descriptors, of which the process has only so many. A box gets at most as
// much as it leaves: however many boxes take what they can, the next one finds some.
constexpr bool leaves_enough(std::size_t own, std::size_t all, std::size_t most) {
  return all < most && own < most - all;
}

// Whether one more call of a box may wait.
constexpr bool may_wait(std::size_t own, std::size_t all, std::size_t most) {
  constexpr std::size_t kMostOfOne = 64;
  return own < kMostOfOne && leaves_enough(own, all, most);
}

// Where a socket that the box binds listens outside; nothing: it stays inside.
std::optional<Endpoint> find_published(const authority::AuthoritySet& authority,
                                       std::span<const plan::Publication> published,
                                       const Endpoint& bound);

}  // namespace glovebox::egress
