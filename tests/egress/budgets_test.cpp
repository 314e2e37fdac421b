// Budgets of connections, of bytes, and of connections in a second.
#include "support/box_test.h"
#include "support/servers.h"

#include <array>
#include <atomic>
#include <cstdio>

#include <unistd.h>

namespace glovebox::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kHost = "127.50.0.1";

class Budgets : public BoxTest {};

TEST_P(Budgets, ConnectionsAtOnceAreCounted) {
  const TcpServer server(kHost, echo());
  const Words words = {"--allow", "connect=" + server.where(), "--allow", "connections=4"};
  const Outcome many = probe(words, {"connect_many", kHost, server.port(), "10"});
  EXPECT_THAT(many.out, HasSubstr("through 4"));
  EXPECT_THAT(many.err, HasSubstr("4 connections are open"));
  const Outcome often = probe(words, {"connect_often", kHost, server.port(), "50"});
  EXPECT_THAT(often.out, HasSubstr("through 50")) << "those that were closed do not count";
}

TEST_P(Budgets, BytesSentAreCounted) {
  const TcpServer server(kHost, echo());
  const Words words = {"--allow", "connect=" + server.where(), "--allow", "egress_bytes=1MiB"};
  EXPECT_THAT(probe(words, {"send_much", kHost, server.port(), "64"}),
              refused_with(Errnos{EPIPE, ECONNRESET}));
  EXPECT_THAT(probe(words, {"send_much", kHost, server.port(), "64", "hidden"}),
              refused_with(Errnos{EPIPE, ECONNRESET}))
      << "a process that is not dumpable";
  const Outcome few =
      probe({"--allow", "connect=" + server.where(), "--allow", "egress_bytes=8MiB"},
            {"send_much", kHost, server.port(), "2"});
  EXPECT_THAT(few, ended_with(0));
}

TEST_P(Budgets, WhoHidesASocketIsEndedWithIt) {
  std::atomic<long> received{0};
  const TcpServer server(kHost, [&](int fd) {
    std::array<char, 65536> buffer;
    ssize_t size = 0;
    while ((size = read(fd, buffer.data(), buffer.size())) > 0) {
      received += size;
      usleep(2000);
    }
  });
  const Outcome outcome =
      probe({"--allow", "connect=" + server.where(), "--allow", "egress_bytes=1MiB"},
            {"send_without_number", kHost, server.port()});
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_LT(received, 200'000'000);
  if (as_root()) {
    EXPECT_THAT(outcome, ended_with(0)) << "root ends the connection alone";
    return;
  }
  EXPECT_THAT(outcome, ended_with(125));
  EXPECT_THAT(outcome.err, HasSubstr("the box was ended: a connection that was taken from the box "
                                     "could not be found in its processes"));
}

struct Counted {
  long through = -1;
  long milliseconds = 0;
  int error = 0;
};

// What the probe says of each place that it connected to.
std::vector<Counted> counted(const Outcome& outcome) {
  std::vector<Counted> all;
  for (const std::string& line : lines_after(outcome.out, "through ")) {
    Counted one;
    EXPECT_EQ(std::sscanf(line.c_str(), "%ld in %ld ms, error %d", &one.through, &one.milliseconds,
                          &one.error),
              3)
        << line;
    all.push_back(one);
  }
  return all;
}

// As many as a bucket of this size gives in that time.
long most_in(long milliseconds, long per_second) {
  return per_second + (milliseconds + 1) * per_second / 1000 + 1;
}

TEST_P(Budgets, MoreThanTheRateIsRefusedAtOnce) {
  const TcpServer server(kHost, canary());
  const TcpServer other("127.50.0.2", canary());
  const Outcome outcome =
      probe({"--allow", "connect=" + server.where(), "--allow", "connect=" + other.where(),
             "--allow", "connect_rate=5/s"},
            {"connect_often", kHost, server.port(), "200", "127.50.0.2", other.port(), "5"});
  const std::vector<Counted> places = counted(outcome);
  ASSERT_EQ(places.size(), 2U) << outcome.out << outcome.err;
  EXPECT_GE(places[0].through, 5) << "a second's worth at once";
  EXPECT_LE(places[0].through, most_in(places[0].milliseconds, 5));
  EXPECT_EQ(places[0].error, ECONNREFUSED);
  EXPECT_EQ(server.visitors(), places[0].through);
  EXPECT_EQ(places[1].through, 5) << "another destination has a budget of its own";
  EXPECT_THAT(outcome.err,
              HasSubstr("denied: connect to " + server.where() +
                        ": more often than its budget has for one destination (connect_rate=5/s)"));
}

TEST_P(Budgets, WhoKeepsToTheRateIsNeverRefused) {
  const TcpServer server(kHost, canary());
  const Outcome outcome =
      probe({"--allow", "connect=" + server.where(), "--allow", "connect_rate=100/s"},
            {"connect_at_pace", kHost, server.port(), "150", "12"});
  const std::vector<Counted> places = counted(outcome);
  ASSERT_EQ(places.size(), 1U) << outcome.out << outcome.err;
  EXPECT_EQ(places[0].through, 150);
  EXPECT_THAT(outcome.err, Not(HasSubstr("denied")));
}

TEST_P(Budgets, TheSmallerRateCounts) {
  const TcpServer server(kHost, canary());
  const std::string policy = make_file(
      "rate.yaml", "version: 1\nnet: {connect: [\"" + server.where() + "\"]}\nconnect_rate: 3/s\n");
  const Words orders[] = {
      {"--policy", policy, "--allow", "connect_rate=1000/s"},
      {"--allow", "connect=" + server.where(), "--allow", "connect_rate=1000/s", "--allow",
       "connect_rate=3/s"},
  };
  for (const Words& words : orders) {
    const Outcome outcome = probe(words, {"connect_often", kHost, server.port(), "100"});
    const std::vector<Counted> places = counted(outcome);
    ASSERT_EQ(places.size(), 1U) << outcome.out << outcome.err;
    EXPECT_GE(places[0].through, 3);
    EXPECT_LE(places[0].through, most_in(places[0].milliseconds, 3));
  }
}

TEST_P(Budgets, AnAttemptThatFailsIsSpentToo) {
  std::string where;
  std::string port;
  {
    const TcpServer gone(kHost, canary());
    where = gone.where();
    port = gone.port();
  }
  const Outcome outcome = probe({"--allow", "connect=" + where, "--allow", "connect_rate=2/s"},
                                {"connect_often", kHost, port, "60"});
  const auto& denials = outcome.report.at("network").at("denials").as_array();
  ASSERT_EQ(denials.size(), 1U);
  const std::vector<Counted> places = counted(outcome);
  ASSERT_EQ(places.size(), 1U) << outcome.out << outcome.err;
  EXPECT_GE(denials[0].at("times").to_number<long>(), 60 - most_in(places[0].milliseconds, 2));
}

BOX_TEST_TIERS(Budgets);

}  // namespace
}  // namespace glovebox::test
