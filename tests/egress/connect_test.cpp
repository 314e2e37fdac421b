// Connections that are granted behave as programs expect, and all others fail at once and are
// named.
#include "support/box_test.h"
#include "support/servers.h"

namespace glovebox::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kHost = "127.50.0.1";

class Connect : public BoxTest {
 protected:
  static Words granting(const TcpServer& server) {
    return {"--allow", "connect=" + server.where()};
  }
  static std::string denials(const Outcome& outcome) {
    return boost::json::serialize(outcome.report.at("network").at("denials"));
  }
};

TEST_P(Connect, WhatIsGrantedWorks) {
  const TcpServer server(kHost, echo());
  const Words words = granting(server);
  for (const char* how :
       {"connect_tcp", "connect_nonblocking", "connect_in_epoll", "connect_with_copy",
        "connect_keeps_options", "connect_with_blocking_copies", "connect_in_thread"}) {
    EXPECT_THAT(probe(words, {how, kHost, server.port()}), ended_with(0)) << how;
  }
  EXPECT_THAT(probe(words, {"connect_tcp", std::string("::ffff:") + kHost, server.port()}),
              ended_with(0))
      << "an IPv4 address in an IPv6 socket";
}

// What cannot be mended, as docs/reference/network.md says it.
TEST_P(Connect, CopiesInAnotherProcessKeepTheOldSocket) {
  const TcpServer server(kHost, echo());
  const Outcome forked = probe(granting(server), {"connect_after_fork", kHost, server.port()});
  EXPECT_THAT(forked, ended_with(0));
  EXPECT_THAT(forked.out, HasSubstr("child " + std::to_string(EPIPE)));
  const Outcome epoll =
      probe(granting(server), {"connect_blocking_in_epoll", kHost, server.port()});
  EXPECT_THAT(epoll, ended_with(0));
  EXPECT_THAT(epoll.out, HasSubstr("events 0"));
  EXPECT_THAT(epoll.out, HasSubstr("again 0"));
}

TEST_P(Connect, OtherPortsAndAddressesAreRefusedAndNamed) {
  const TcpServer server(kHost, canary());
  const TcpServer other("127.50.0.2", canary());
  const Words words = {"--allow", "connect=127.50.0.1:1"};
  // Not granted, they are loopback addresses of the box's own, where no process listens.
  EXPECT_THAT(probe(words, {"connect_tcp", kHost, server.port()}), ended_with(ECONNREFUSED));
  EXPECT_THAT(probe(words, {"connect_tcp", "127.50.0.2", other.port()}), ended_with(ECONNREFUSED));
  for (const char* host : {"192.0.2.1", "10.0.0.1", "169.254.169.254", "8.8.8.8", "2001:db8::1",
                           "::ffff:169.254.169.254", "fd00:ec2::254", "fe80::1"}) {
    const Outcome outcome = probe(words, {"connect_tcp", host, "80"});
    EXPECT_THAT(outcome, ended_with(EACCES)) << host;
    EXPECT_THAT(outcome.err, HasSubstr("glovebox: denied: connect to ")) << host;
    EXPECT_THAT(outcome.err, HasSubstr("--allow connect=")) << host;
    EXPECT_THAT(denials(outcome), HasSubstr("connect=")) << host;
  }
  EXPECT_EQ(server.visitors() + other.visitors(), 0);
}

TEST_P(Connect, OwnLoopbackWorksBeside) {
  const TcpServer server(kHost, echo());
  const Words words = granting(server);
  for (const char* own : {"127.0.0.1", "127.1.2.3"}) {
    EXPECT_THAT(probe(words, {"loopback", own}), ended_with(0)) << own;
  }
  EXPECT_THAT(probe(words, {"unix_pair", "/tmp/socket"}), ended_with(0));
  EXPECT_THAT(probe(words, {"connect_unix", "/tmp/nothing"}), ended_with(ENOENT));
  EXPECT_THAT(probe(words, {"send_udp", "8.8.8.8", "53"}), ended_with(ENETUNREACH));
}

TEST_P(Connect, ErrorsAreTheKernels) {
  int port = 0;
  {
    port = TcpServer(kHost, canary()).number();
  }
  const Words words = {"--allow", "connect=127.50.0.0/16:*"};
  EXPECT_THAT(probe(words, {"connect_tcp", kHost, std::to_string(port)}), ended_with(ECONNREFUSED));
}

TEST_P(Connect, WaitingEndsAsItShould) {
  const Blackhole hole("127.50.0.9");
  const Words words = {"--allow", "connect=" + hole.where()};
  EXPECT_THAT(probe(words, {"connect_until_alarm", "127.50.0.9", hole.port()}), ended_with(EINTR));
  EXPECT_THAT(probe(words, {"connect_until_timeout", "127.50.0.9", hole.port()}),
              ended_with(EINPROGRESS));
  const Words limited = {"--allow", "connect=" + hole.where(), "--wall", "500ms"};
  Settings settings;
  settings.patience = std::chrono::seconds(10);
  const Outcome killed =
      run(limited, {"/bin/bash", "-c", "exec 3<>/dev/tcp/127.50.0.9/" + hole.port()}, settings);
  EXPECT_THAT(killed, ended_by_limit("wall"));
}

TEST_P(Connect, ReportCountsBytes) {
  const TcpServer server(kHost, http_hello());
  const Outcome outcome = run(granting(server), {"curl", "-sS", "http://" + server.where() + "/x"});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_THAT(outcome.out, HasSubstr("hello /x"));
  const auto& connections = outcome.report.at("network").at("connections").as_array();
  ASSERT_EQ(connections.size(), 1U);
  EXPECT_EQ(connections[0].at("address").as_string(), server.where());
  EXPECT_GT(connections[0].at("bytes_out").to_number<int>(), 20);
  EXPECT_GT(connections[0].at("bytes_in").to_number<int>(), 20);
}

TEST_P(Connect, ABoxWithoutGrantsHasNoBroker) {
  const Outcome outcome = probe({"--deny", "connect=*:*"}, {"connect_tcp", "192.0.2.1", "80"});
  EXPECT_THAT(outcome, ended_with(ENETUNREACH));
  EXPECT_TRUE(outcome.report.at("network").is_null());
  EXPECT_THAT(glovebox({"explain", "--", "true"}).out, Not(HasSubstr("listener")));
  EXPECT_THAT(glovebox({"explain", "--allow", "connect=192.0.2.1:80", "--", "true"}).out,
              HasSubstr("listener"));
}

TEST_P(Connect, CopiesAreReplacedUpToABound) {
  const TcpServer server(kHost, echo());
  const Words words = {"--allow", "connect=" + server.where()};
  for (const Words& how : {Words{}, Words{"blocking"}}) {
    const auto with = [&](const std::string& count) {
      Words all{"connect_with_many_copies", kHost, server.port(), count};
      all.insert(all.end(), how.begin(), how.end());
      return probe(words, all);
    };
    EXPECT_THAT(with("10"), ended_with(0));
    EXPECT_THAT(with("1000"), ended_with(EMFILE));
  }
}

BOX_TEST_TIERS(Connect);

}  // namespace
}  // namespace glovebox::test
