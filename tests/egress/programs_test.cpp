// Programs as people use them, with nothing said to them about a box. Those that need servers of
// their own kind are in test_programs.py.
#include "support/box_test.h"
#include "support/servers.h"

#include <filesystem>

namespace glovebox::test {
namespace {

using testing::HasSubstr;

class Programs : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    dns_.set("web.test", {"127.50.0.1"});
  }
  Words granting(int port) const {
    return {"--resolver", dns_.where(),
            "--allow",    "connect=web.test:" + std::to_string(port),
            "--allow",    "connect=127.50.0.1:" + std::to_string(port)};
  }
  // False when this machine does not have it; that is said, and CI has it.
  static bool has(const char* program) { return std::filesystem::exists(program); }
  std::string url(const std::string& path = "/") const {
    return "http://web.test:" + web_.port() + path;
  }

  DnsServer dns_{"127.50.0.53"};
  TcpServer web_{"127.50.0.1", http_hello()};
};

TEST_P(Programs, Curl) {
  EXPECT_THAT(run(granting(web_.number()), {"curl", "-sS", url("/c")}).out, HasSubstr("hello /c"));
  EXPECT_THAT(run(granting(web_.number()), {"curl", "-sS", "--tcp-fastopen", url("/f")}).out,
              HasSubstr("hello /f"));
}

TEST_P(Programs, Python) {
  const std::string script =
      "import asyncio, multiprocessing, urllib.request\n"
      "print(urllib.request.urlopen('" +
      url("/u") +
      "').read())\n"
      "async def talk():\n"
      "    r, w = await asyncio.open_connection('web.test', " +
      web_.port() +
      ")\n"
      "    w.write(b'GET /a HTTP/1.0\\r\\n\\r\\n')\n"
      "    print(await r.read())\n"
      "    s = await asyncio.start_server(lambda r, w: (w.write(b'own'), w.close()), '127.0.0.1', "
      "9000)\n"
      "    r, w = await asyncio.open_connection('127.0.0.1', 9000)\n"
      "    print(await r.read())\n"
      "asyncio.run(talk())\n"
      "with multiprocessing.Manager() as m:\n"
      "    d = m.dict(); d['x'] = 'managed'; print(d['x'])\n";
  const Outcome outcome = run(granting(web_.number()), {"/usr/bin/python3", "-c", script});
  for (const char* part : {"hello /u", "hello /a", "own", "managed"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
}

TEST_P(Programs, Bash) {
  EXPECT_THAT(
      run(granting(web_.number()), {"bash", "-c",
                                    "exec 3<>/dev/tcp/web.test/" + web_.port() +
                                        "; printf 'GET /b HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"})
          .out,
      HasSubstr("hello /b"));
}

TEST_P(Programs, BusyboxIsStaticAndHasAResolverOfItsOwn) {
  if (!has("/bin/busybox")) GTEST_SKIP() << "no busybox here";
  EXPECT_THAT(
      run(granting(web_.number()), {"/bin/busybox", "wget", "-q", "-O", "-", url("/w")}).out,
      HasSubstr("hello /w"));
}

TEST_P(Programs, Node) {
  if (!has("/usr/bin/node")) GTEST_SKIP() << "no node here";
  const std::string script = "fetch('" + url("/n") + "').then(r => r.text()).then(console.log)";
  Settings settings;
  settings.patience = std::chrono::seconds(60);
  EXPECT_THAT(run(granting(web_.number()), {"/usr/bin/node", "-e", script}, settings).out,
              HasSubstr("hello /n"));
}

TEST_P(Programs, APolicyWithNetworkTermsWorks) {
  const std::string policy =
      make_file("net.yaml", "version: 1\nnet:\n  connect: ['web.test:" + web_.port() +
                                "', '127.50.0.1:" + web_.port() + "']\nwall: 30s\n");
  EXPECT_THAT(run({"--resolver", dns_.where(), "--policy", policy}, {"curl", "-sS", url("/p")}).out,
              HasSubstr("hello /p"));
  EXPECT_THAT(run({"--policy", "web-scraper"}, {"true"}), ended_with(0));
}

BOX_TEST_TIERS(Programs);

}  // namespace
}  // namespace glovebox::test
