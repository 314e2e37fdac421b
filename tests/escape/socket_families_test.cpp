// Class 26: socket families that reach the kernel's large or host-wide parts: netlink, packet,
// AF_ALG, vsock, bluetooth, raw sockets.
// Tried: every family from 0 to 50 with every type.
// Canary: the list of what can be made is exactly the one that is meant.
#include "support/box_test.h"

#include <set>

namespace glovebox::test {
namespace {

class SocketFamilies : public BoxTest {};

TEST_P(SocketFamilies, SweepFindsOnlyTheKnownOnes) {
  const Outcome outcome = probe({}, {"socket_sweep"});
  ASSERT_THAT(outcome, ended_with(0));
  const Words open = lines_after(outcome.out, "open ");
  // AF_UNIX stream, datagram, seqpacket; AF_INET and AF_INET6 stream and datagram. AF_UNIX takes
  // SOCK_RAW for SOCK_DGRAM, which the filter does not let through.
  const std::set<std::string> expected{"1 1", "1 2", "1 5", "2 1", "2 2", "10 1", "10 2"};
  EXPECT_EQ(std::set<std::string>(open.begin(), open.end()), expected);
}

TEST_P(SocketFamilies, DangerousOnesSayNo) {
  const Errnos no{EAFNOSUPPORT, EPERM, EPROTONOSUPPORT};
  EXPECT_THAT(probe({}, {"netlink", "0"}), refused_with(no)) << "route";
  EXPECT_THAT(probe({}, {"netlink", "9"}), refused_with(no)) << "audit";
  EXPECT_THAT(probe({}, {"netlink", "15"}), refused_with(no)) << "uevents";
  EXPECT_THAT(probe({}, {"socket", "17", "3"}), refused_with(no)) << "packet";
  EXPECT_THAT(probe({}, {"socket", "38", "5"}), refused_with(no)) << "AF_ALG";
  EXPECT_THAT(probe({}, {"socket", "40", "1"}), refused_with(no)) << "vsock";
  EXPECT_THAT(probe({}, {"socket", "2", "3", "255"}), refused_with(no)) << "raw";
  EXPECT_THAT(probe({}, {"socket", "2", "2", "1"}), refused_with(no)) << "ping";
  EXPECT_THAT(probe({}, {"socket", "2", "1", "262"}), refused_with(no)) << "mptcp";
  EXPECT_THAT(probe({}, {"socket", "2", "1", "132"}), refused_with(no)) << "sctp";
}

TEST_P(SocketFamilies, HighBitsChangeNothing) {
  // The kernel reads 32 bits of the family; a filter that compares 64 would let this pass.
  const std::string family = std::to_string((1UL << 32) | 16);
  EXPECT_THAT(probe({}, {"syscall", "41", family, "3", "0"}),
              refused_with(Errnos{EAFNOSUPPORT, EPERM}));
}

BOX_TEST_TIERS(SocketFamilies);

}  // namespace
}  // namespace glovebox::test
