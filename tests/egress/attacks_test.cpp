// A box that tries to reach more than it was granted.
#include "support/box_test.h"
#include "support/servers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace glovebox::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kGranted = "127.50.0.1";
constexpr const char* kOther = "127.50.0.2";

class Attacks : public BoxTest {
 protected:
  static Words granting(const std::string& where) { return {"--allow", "connect=" + where}; }
  static Settings patient() {
    Settings settings;
    settings.patience = std::chrono::seconds(600);
    return settings;
  }
  static bool visit(int port) {
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<std::uint16_t>(port));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0) return true;
    pollfd ready{fd.get(), POLLOUT, 0};
    if (poll(&ready, 1, 500) <= 0) return false;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error == 0;
  }
};

TEST_P(Attacks, AnAddressThatChangesMeanwhileLeadsNowhereElse) {
  const TcpServer granted(kGranted, canary());
  const TcpServer other(kOther, canary());
  const Outcome outcome =
      probe(granting(granted.where()),
            {"race_address", kGranted, granted.port(), kOther, other.port(), "100000"}, patient());
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_THAT(outcome.out, Not(HasSubstr("reached")));
  EXPECT_EQ(other.visitors(), 0);
  EXPECT_GT(granted.visitors(), 0) << "the race was none";
}

TEST_P(Attacks, ASocketThatIsSwappedMeanwhileLeadsNowhereElse) {
  const Blackhole granted("127.50.0.9");
  const TcpServer other(kOther, canary());
  const Outcome outcome = probe(
      granting(granted.where()),
      {"race_descriptor", "127.50.0.9", granted.port(), kOther, other.port(), "20000"}, patient());
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_THAT(outcome.out, Not(HasSubstr("reached")));
  EXPECT_EQ(other.visitors(), 0);
}

TEST_P(Attacks, AGrantedSocketGoesNowhereElse) {
  const TcpServer granted(kGranted, echo());
  const TcpServer other(kOther, canary());
  const Outcome outcome = probe(granting(granted.where()),
                                {"disconnect", kGranted, granted.port(), kOther, other.port()});
  EXPECT_THAT(outcome.out, HasSubstr("disconnect " + std::to_string(EOPNOTSUPP)));
  EXPECT_THAT(outcome.out, Not(HasSubstr("other 0")));
  EXPECT_THAT(outcome.out, HasSubstr("fast open " + std::to_string(EOPNOTSUPP)));
  EXPECT_EQ(other.visitors(), 0);
}

TEST_P(Attacks, AGrantedSocketIsNoDoorIntoTheBox) {
  const Blackhole granted("127.50.0.9");
  Running box =
      start_probe(granting(granted.where()), {"listen_outside", "127.50.0.9", granted.port()});
  ASSERT_TRUE(box.wait_for(" port "));
  ASSERT_TRUE(box.wait_for("end of line"));
  // What was listened at is taken by no other process while the box lives: every port that it could
  // be is visited by the number in its line.
  const Words lines = lines_after(box.seen(), "listen ");
  ASSERT_EQ(lines.size(), 1U);
  const int port = std::stoi(lines[0].substr(lines[0].find("port ") + 5));
  EXPECT_TRUE(port == 0 || !visit(port));
  box.type("x");
  const Outcome outcome = box.finish();
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_THAT(outcome.out, Not(HasSubstr("visited")));
}

TEST_P(Attacks, ServicesOfTheHostStayOutOfReach) {
  const TcpServer loopback("127.0.0.1", canary());
  const TcpServer everywhere("0.0.0.0", canary());
  const Words words = {"--allow", "connect=*:*"};
  for (const char* host : {"127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1"}) {
    EXPECT_THAT(probe(words, {"connect_tcp", host, loopback.port()}), ended_with(ECONNREFUSED))
        << host;
    EXPECT_THAT(probe(words, {"connect_tcp", host, everywhere.port()}), ended_with(ECONNREFUSED))
        << host;
  }
  EXPECT_THAT(probe(words, {"connect_tcp", "169.254.169.254", "80"}), ended_with(EACCES));
  EXPECT_EQ(loopback.visitors() + everywhere.visitors(), 0);
}

TEST_P(Attacks, OtherFamiliesStayShut) {
  const Words words = granting("192.0.2.1:80");
  EXPECT_THAT(probe(words, {"netlink", "0"}), ended_with(EAFNOSUPPORT));
  EXPECT_THAT(probe(words, {"socket", "40", "1"}), ended_with(EAFNOSUPPORT)) << "vsock";
  EXPECT_THAT(probe(words, {"socket", "2", "3", "1"}), ended_with(EPERM)) << "raw";
  EXPECT_THAT(probe(words, {"socket", "2", "1", "262"}), ended_with(EPROTONOSUPPORT)) << "mptcp";
}

BOX_TEST_TIERS(Attacks);

}  // namespace
}  // namespace glovebox::test
