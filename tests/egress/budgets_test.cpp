// Budgets of connections and of bytes.
#include "support/box_test.h"
#include "support/servers.h"

namespace glovebox::test {
namespace {

using testing::HasSubstr;

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

BOX_TEST_TIERS(Budgets);

}  // namespace
}  // namespace glovebox::test
