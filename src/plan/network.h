// What the connect broker (egress/) does for one box, as values.
//
// A box has an empty network namespace, always. When its authority grants something of the network,
// its filter passes connect(2) on to the broker, which makes the connections that are granted
// outside and hands them in. A box without such a grant has no broker, and its filter is the plain
// one: it pays nothing.
#pragma once

#include "authority/authority_set.h"
#include "authority/network.h"

#include <cstdint>
#include <string>
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

// How calls on Unix sockets, whose paths lie in the box, are served.
enum class UnixCalls : std::uint8_t {
  LetThrough,  // by the kernel. For a broker of root's, which can lock each socket to its peer
  CarryOut,    // by the broker, which is the same user as the box
};

struct NetworkPlan {
  authority::AuthoritySet authority;  // the rules about connections, names and listeners decide
  std::vector<Publication> published;
  bool resolves = false;  // some name may be looked up: there is a resolver inside
  UnixCalls unix_calls = UnixCalls::LetThrough;
  friend bool operator==(const NetworkPlan&, const NetworkPlan&) = default;
};

}  // namespace glovebox::plan
