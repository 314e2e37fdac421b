// Ports of a box that are opened outside.
#include "support/box_test.h"
#include "support/servers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace glovebox::test {
namespace {

using testing::HasSubstr;

class Publish : public BoxTest {
 protected:
  static std::string fetch(const std::string& address, int port) {
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<std::uint16_t>(port));
    inet_pton(AF_INET, address.c_str(), &where.sin_addr);
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) != 0) return "";
    std::string text;
    char buffer[256];
    ssize_t size = 0;
    while ((size = read(fd.get(), buffer, sizeof buffer)) > 0) {
      text.append(buffer, static_cast<std::size_t>(size));
    }
    return text;
  }
  static int free_port() {
    const TcpServer server("127.50.0.7", canary());
    return server.number();
  }
  static Words server(const std::string& address, int port) {
    return {"python3", "-c",
            "import socket\ns=socket.socket(); s.setsockopt(1,2,1); s.bind(('" + address + "'," +
                std::to_string(port) +
                ")); s.listen()\nprint('ready',flush=True)\nc,_=s.accept(); c.sendall(b'from the "
                "box'); c.close()"};
  }
};

TEST_P(Publish, VisitorsComeIn) {
  const int port = free_port();
  for (const char* inside : {"0.0.0.0", "127.0.0.1"}) {
    Running box = start({"-p", "127.50.0.7:" + std::to_string(port) + ":80"}, server(inside, 80));
    ASSERT_TRUE(box.wait_for("ready"));
    EXPECT_EQ(fetch("127.50.0.7", port), "from the box");
    const Outcome outcome = box.finish();
    EXPECT_THAT(outcome, ended_with(0));
    EXPECT_THAT(boost::json::serialize(outcome.report.at("network").at("listeners")),
                HasSubstr("127.50.0.7:" + std::to_string(port)));
  }
}

TEST_P(Publish, OtherPortsStayInside) {
  const int port = free_port();
  const int other = free_port();
  Running box =
      start({"-p", "127.50.0.7:" + std::to_string(port) + ":80"},
            {"python3", "-c",
             "import socket\ns=socket.socket(); s.bind(('0.0.0.0'," + std::to_string(other) +
                 ")); s.listen()\nprint('ready',flush=True)\n"
                 "c=socket.create_connection(('127.0.0.1'," +
                 std::to_string(other) + "))\nprint('inside',flush=True)\ninput()"});
  ASSERT_TRUE(box.wait_for("inside"));
  EXPECT_EQ(fetch("127.50.0.7", other), "");
  EXPECT_EQ(fetch("127.0.0.1", other), "");
  box.type("\n");
  EXPECT_THAT(box.finish(), ended_with(0));
}

TEST_P(Publish, APortThatIsTakenIsARefusal) {
  const TcpServer taken("127.50.0.7", canary());
  EXPECT_THAT(run({"-p", "127.50.0.7:" + taken.port() + ":80"}, {"true"}),
              refused_to_start("publish 127.50.0.7:" + taken.port()));
  EXPECT_THAT(run({"-p", "nonsense"}, {"true"}), refused_to_start("nonsense"));
  EXPECT_THAT(run({"-p", "80:0"}, {"true"}), refused_to_start("is not a port"));
}

BOX_TEST_TIERS(Publish);

}  // namespace
}  // namespace glovebox::test
