// What the connect broker (egress/) does for one box, as values.
//
// A box has an empty network namespace, always. When its authority grants something of the network,
// its filter passes connect(2) on to the broker, which makes the connections that are granted
// outside and hands them in.
//
// A network namespace does not hold Unix sockets that have a path: they are found through the file
// tree, also a read-only one. So a box that is shown a directory of the host has its connect(2)
// answered by the broker too, which connects it to the sockets that it made itself and to those
// that `unix=` grants.
//
// A box without either has no broker, and its filter is the plain one: it pays nothing.
#pragma once

#include "authority/authority_set.h"
#include "authority/network.h"
#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::plan {

// A port of the box that is opened outside: who binds `inside` in the box listens at `address` port
// `outside` of the host.
struct Publication {
  authority::IpNetwork address;  // one address of the host
  std::uint16_t outside = 0;
  std::uint16_t inside = 0;
  friend bool operator==(const Publication&, const Publication&) = default;
};
// "127.0.0.1:8080:80".
std::string to_text(const Publication& publication);
// [ADDRESS:]OUTSIDE:INSIDE, or one port for both; without an address 127.0.0.1.
Result<Publication> parse_publication(std::string_view text);

// How calls on Unix sockets, whose paths lie in the box, are served.
enum class UnixCalls : std::uint8_t {
  LetThrough,  // by the kernel. For a broker of root's, which can lock each socket to its peer
  CarryOut,    // by the broker, which is the same user as the box
  Guard,       // by the broker, as the box's user, and not to sockets that the host made
};

// Whether the box may reach anything over IP but itself.
enum class Reach : std::uint8_t { Granted, OwnLoopback };

// A tree that the box sees at another path than the host.
struct MovedTree {
  std::string inside;
  std::string outside;
  friend bool operator==(const MovedTree&, const MovedTree&) = default;
};

struct NetworkPlan {
  authority::AuthoritySet authority;  // the rules about connections, names and listeners decide
  std::vector<Publication> published;
  bool resolves = false;   // some name may be looked up: there is a resolver inside
  std::string resolver{};  // name servers that it asks; empty: the host's
  Reach reach = Reach::Granted;
  UnixCalls unix_calls = UnixCalls::LetThrough;
  // With UnixCalls::Guard: the mount points whose sockets the box may connect to, whichever process
  // made them: its own file systems, and what `unix=` grants.
  std::vector<std::string> socket_places;
  std::vector<MovedTree> moved;  // with UnixCalls::Guard, for what it tells of denials

  bool reaches_out() const { return reach == Reach::Granted; }
  bool guards_sockets() const { return unix_calls == UnixCalls::Guard; }
  friend bool operator==(const NetworkPlan&, const NetworkPlan&) = default;
};

}  // namespace glovebox::plan
