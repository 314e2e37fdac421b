// Names: only those that a grant needs are looked up, and what was answered is what can be reached.
#include "support/box_test.h"
#include "support/servers.h"

#include <algorithm>

namespace glovebox::test {
namespace {

using testing::HasSubstr;

class Names : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    dns_.set("api.test", {"127.50.0.1"});
    dns_.set("metadata.test", {"169.254.169.254"});
    dns_.set("private.test", {"10.1.2.3"});
    dns_.set("loop.test", {"127.0.0.1"});
    dns_.set("real.cdn.test", {"127.50.0.1"});
    dns_.alias("www.test", "real.cdn.test");
  }
  // A name's grant reaches public addresses; those of this test are loopback, and granted too.
  Words granting(const Words& terms) const {
    Words words{"--resolver", dns_.where()};
    for (const std::string& term : terms) words.insert(words.end(), {"--allow", term});
    return words;
  }
  bool was_asked(const std::string& name) const {
    const auto asked = dns_.asked();
    return std::find(asked.begin(), asked.end(), name) != asked.end();
  }
  Outcome resolve(const Words& words, const std::string& name) {
    return run(words, {"getent", "ahosts", name});
  }

  DnsServer dns_{"127.50.0.53"};
};

TEST_P(Names, AGrantedNameIsFoundAndReached) {
  const TcpServer server("127.50.0.1", http_hello());
  const Words words = granting({"connect=api.test:" + server.port(), "connect=" + server.where()});
  const Outcome outcome = run(words, {"curl", "-sS", "http://api.test:" + server.port() + "/n"});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_EQ(outcome.out, "hello /n\n");
  EXPECT_THAT(run(words, {"curl", "-sS", "http://API.Test.:" + server.port() + "/n"}).out,
              HasSubstr("hello"))
      << "upper case and a final dot are the same name";
}

TEST_P(Names, OthersDoNotExistAndNobodyIsAsked) {
  const Words words = granting({"connect=api.test:443"});
  for (const char* name :
       {"evil.test", "x.api.test", "api.test.evil", "localhost.evil",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.evil.test"}) {
    const Outcome outcome = resolve(words, name);
    EXPECT_NE(outcome.code, 0) << name;
    EXPECT_THAT(outcome.err, HasSubstr(std::string("denied: look up ") + name));
    EXPECT_FALSE(was_asked(name)) << name;
  }
  EXPECT_TRUE(dns_.asked().empty());
  EXPECT_THAT(resolve(words, "localhost"), ended_with(0));
}

TEST_P(Names, AliasesAreFollowedUnderTheNameThatWasAsked) {
  const TcpServer server("127.50.0.1", http_hello());
  const Words words = granting({"connect=www.test:" + server.port(), "connect=" + server.where()});
  EXPECT_THAT(run(words, {"curl", "-sS", "http://www.test:" + server.port() + "/a"}).out,
              HasSubstr("hello /a"));
  EXPECT_NE(resolve(words, "real.cdn.test").code, 0);
}

TEST_P(Names, ANameDoesNotReachSpecialPlaces) {
  const TcpServer canary_server("127.0.0.1", canary());
  const Words words = granting({"connect=*.test:*"});
  for (const char* name : {"metadata.test", "private.test", "loop.test"}) {
    const Outcome outcome =
        run(words, {"curl", "-sS", "-m", "5",
                    std::string("http://") + name + ":" + canary_server.port() + "/"});
    EXPECT_THAT(outcome, ended_with(7)) << name;
    EXPECT_THAT(outcome.err, HasSubstr("address, which a name's grant does not reach")) << name;
  }
  EXPECT_EQ(canary_server.visitors(), 0);
}

TEST_P(Names, AnAnswerIsPinned) {
  const TcpServer first("127.50.0.1", http_hello());
  const Words words = granting({"connect=api.test:*", "connect=" + first.where()});
  // Asked again, the same box gets the same answer, whatever the server says by then.
  Running box = start(
      words,
      {"/bin/sh", "-c", "getent ahostsv4 api.test; echo asked; read x; getent ahostsv4 api.test"});
  ASSERT_TRUE(box.wait_for("asked"));
  dns_.set("api.test", {"127.0.0.1"});
  box.type("\n");
  const Outcome outcome = box.finish();
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("127.0.0.1 ")));
  EXPECT_THAT(outcome.out, HasSubstr("127.50.0.1"));
}

TEST_P(Names, TheResolversOfProgramsAgree) {
  const Words words = granting({"connect=api.test:443"});
  EXPECT_THAT(resolve(words, "api.test").out, HasSubstr("127.50.0.1"));
  EXPECT_THAT(run(words, {"python3", "-c",
                          "import socket; print(socket.getaddrinfo('api.test', 443)[0][4][0])"})
                  .out,
              HasSubstr("127.50.0.1"));
  EXPECT_THAT(run(words, {"busybox", "nslookup", "-type=a", "api.test"}).out,
              HasSubstr("127.50.0.1"));
}

TEST_P(Names, LiteralGrantsAloneNeedNoResolver) {
  const Outcome outcome = glovebox({"explain", "--allow", "connect=192.0.2.1:443", "--", "true"});
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("open-resolver")));
  EXPECT_THAT(run({"--allow", "connect=a.test:443", "--no-loopback"}, {"true"}),
              refused_to_start("no-loopback"));
}

BOX_TEST_TIERS(Names);

}  // namespace
}  // namespace glovebox::test
