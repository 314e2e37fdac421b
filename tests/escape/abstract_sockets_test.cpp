// Class 11: abstract unix sockets have no file and no mode, so only a network namespace or Landlock
// keeps a box from the session bus and its like (bubblewrap issues 330 and 704).
// Tried: connecting to a listener of the host, by stream and by datagram.
// Canary: the listener sees no connection.
#include "support/box_test.h"
#include "support/host_socket.h"

#include <sys/socket.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

class AbstractSockets : public BoxTest {};

TEST_P(AbstractSockets, ListenerOfTheHostIsOutOfReach) {
  const std::string name = "glovebox-canary-" + std::to_string(getpid());
  const HostSocket stream(std::string(1, '\0') + name, SOCK_STREAM);
  const HostSocket datagram(std::string(1, '\0') + name + "-d", SOCK_DGRAM);
  EXPECT_THAT(probe({}, {"connect_abstract", name}), refused_with(Errnos{ECONNREFUSED, EPERM}));
  EXPECT_THAT(probe({}, {"connect_abstract", name + "-d", "dgram"}),
              refused_with(Errnos{ECONNREFUSED, EPERM}));
  EXPECT_FALSE(stream.was_reached());
  EXPECT_FALSE(datagram.was_reached());
}

TEST_P(AbstractSockets, BoxesDoNotMeet) {
  const std::string listen =
      "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, pack_sockaddr_un(\"\\0meeting\")) "
      "or die $!; listen(S, 1); $|=1; print \"ready\\n\"; accept(C, S); print \"reached\\n\"";
  Running server = start({}, {"/usr/bin/perl", "-e", listen});
  ASSERT_TRUE(server.wait_for("ready"));
  EXPECT_THAT(probe({}, {"connect_abstract", "meeting"}),
              refused_with(Errnos{ECONNREFUSED, EPERM}));
  kill(server);
  EXPECT_THAT(server.finish().out, testing::Not(testing::HasSubstr("reached")));
}

TEST_P(AbstractSockets, InsideABoxTheyWork) {
  const std::string both =
      "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); my $n = pack_sockaddr_un(\"\\0own\"); "
      "bind(S, $n) or die; listen(S, 1); socket(C, AF_UNIX, SOCK_STREAM, 0); connect(C, $n) or die "
      "$!";
  EXPECT_THAT(run({}, {"/usr/bin/perl", "-e", both}), ended_with(0));
}

BOX_TEST_TIERS(AbstractSockets);

}  // namespace
}  // namespace glovebox::test
