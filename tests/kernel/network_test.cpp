// A box has its own loopback and reaches nothing else.
#include "support/box_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace glovebox::test {
namespace {

// A listener on the host that counts who comes.
class Listener {
 public:
  explicit Listener(in_addr_t where) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(where);
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(fd_.get(), generic, length) != 0 || listen(fd_.get(), 8) != 0 ||
        getsockname(fd_.get(), generic, &length) != 0) {
      throw std::runtime_error("cannot listen");
    }
    port_ = ntohs(address.sin_port);
  }
  std::string port() const { return std::to_string(port_); }
  bool was_reached() const {
    pollfd waiting{fd_.get(), POLLIN, 0};
    return poll(&waiting, 1, 0) > 0;
  }

 private:
  UniqueFd fd_;
  int port_ = 0;
};

class Network : public BoxTest {};

TEST_P(Network, LoopbackWorksInside) {
  EXPECT_THAT(probe({}, {"loopback", "127.0.0.1"}), ended_with(0));
  EXPECT_THAT(probe({}, {"loopback", "127.1.2.3"}), ended_with(0));
}

TEST_P(Network, Ipv6LoopbackWorksInside) {
  NEEDS(Feature::Ipv6Loopback);
  EXPECT_THAT(probe({}, {"loopback", "::1"}), ended_with(0));
}

TEST_P(Network, ListenersOfTheHostAreOutOfReach) {
  const Listener listener(INADDR_ANY);
  EXPECT_THAT(probe({}, {"connect_tcp", "127.0.0.1", listener.port()}), ended_with(ECONNREFUSED));
  EXPECT_THAT(probe({}, {"connect_tcp", "0.0.0.0", listener.port()}), ended_with(ECONNREFUSED));
  EXPECT_FALSE(listener.was_reached());
}

TEST_P(Network, NothingElseIsReachable) {
  for (const char* host : {"192.0.2.1", "10.0.0.1", "169.254.169.254", "8.8.8.8"}) {
    EXPECT_THAT(probe({}, {"connect_tcp", host, "80"}),
                refused_with(Errnos{ENETUNREACH, EHOSTUNREACH}))
        << host;
    EXPECT_THAT(probe({}, {"send_udp", host, "53"}),
                refused_with(Errnos{ENETUNREACH, EHOSTUNREACH}))
        << host;
  }
  EXPECT_THAT(probe({}, {"connect_tcp", "2001:db8::1", "80"}),
              refused_with(Errnos{ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL}));
}

TEST_P(Network, LoopbackIsTheOnlyInterface) {
  EXPECT_EQ(lines_after(probe({}, {"interfaces"}).out, "interface "), Words{"lo"});
}

TEST_P(Network, TwoBoxesDoNotMeetOnLoopback) {
  Running server = start({}, {"/usr/bin/perl", "-MIO::Socket::INET", "-e",
                              "$|=1; my $s = IO::Socket::INET->new(Listen => 1, "
                              "LocalAddr => '127.0.0.1:4567') or die $!; print \"ready\\n\"; "
                              "$s->accept; print \"reached\\n\""});
  ASSERT_TRUE(server.wait_for("ready"));
  EXPECT_THAT(probe({}, {"connect_tcp", "127.0.0.1", "4567"}), ended_with(ECONNREFUSED));
  kill(server);
  EXPECT_THAT(server.finish().out, testing::Not(testing::HasSubstr("reached")));
}

TEST_P(Network, LoopbackCanBeTurnedOff) {
  EXPECT_THAT(probe({"--no-loopback"}, {"loopback", "127.0.0.1"}),
              refused_with(Errnos{EACCES, ENETUNREACH, EADDRNOTAVAIL}));
  EXPECT_THAT(probe({"--no-loopback"}, {"send_udp", "127.0.0.1", "53"}),
              refused_with(Errnos{ENETUNREACH, EACCES}));
}

TEST_P(Network, UnixSocketsWorkInside) {
  EXPECT_THAT(probe({}, {"unix_pair", "/tmp/socket"}), ended_with(0));
}

BOX_TEST_TIERS(Network);

}  // namespace
}  // namespace glovebox::test
