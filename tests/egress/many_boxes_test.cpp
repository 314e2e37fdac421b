// One broker with several boxes of a launcher process: names in a pooled network, narrowing while
// boxes run, and that one box does not hold up another.

#include "authority/terms.h"
#include "base/file.h"
#include "egress/broker.h"
#include "egress/rules/ledger.h"
#include "host/facts.h"
#include "launch/child/init_message.h"
#include "launch/launcher_client.h"
#include "launch/packet.h"
#include "plan/make_plan.h"
#include "support/servers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace glovebox::egress {
namespace {

using test::Blackhole;
using test::DnsServer;
using test::TcpServer;

constexpr const char* kHost = "127.50.0.1";
constexpr int kPatienceMs = 20'000;

// Reads "HOST PORT" lines: connects, says "ok" or the errno, keeps the connection, and on "read"
// says what comes from it.
constexpr const char* kScript = R"(
import socket, sys
kept = None
for line in sys.stdin:
    words = line.split()
    if words == ['read']:
        try: print(repr(kept.recv(10)), flush=True)
        except OSError as e: print(e.errno, flush=True)
        continue
    try:
        kept = socket.create_connection((words[0], int(words[1])))
        print('ok', flush=True)
    except socket.gaierror: print('no name', flush=True)
    except OSError as e: print(e.errno, flush=True)
)";

authority::AuthoritySet granting(const std::vector<std::string>& terms) {
  std::vector<authority::Capability> list;
  for (const std::string& term : terms) list.push_back(*authority::parse_term(term));
  return *authority::AuthoritySet::granting(list);
}

struct Box {
  launch::RemoteBox remote;
  BoxId id = 0;
  UniqueFd in, out;
  std::unique_ptr<Ledger> ledger = std::make_unique<Ledger>();

  void tell(const std::string& line) const { EXPECT_TRUE(write_all(in, line + "\n")); }
  std::string hear() const {
    std::string line;
    char c = 0;
    while (true) {
      pollfd ready{out.get(), POLLIN, 0};
      if (::poll(&ready, 1, kPatienceMs) <= 0 || ::read(out.get(), &c, 1) != 1)
        return line + "<end>";
      if (c == '\n') return line;
      line += c;
    }
  }
  std::string ask(const std::string& line) const {
    tell(line);
    return hear();
  }
};

class ManyBoxes : public testing::Test {
 protected:
  void SetUp() override {
    dns_.set("web.test", {kHost});
    const char* program = std::getenv("GLOVEBOX_LAUNCHER");
    auto client = launch::LauncherClient::start(program == nullptr ? "glovebox-launcher" : program);
    ASSERT_TRUE(client) << client.error().message;
    launcher_.emplace(*std::move(client));
    auto broker = Broker::open({dns_.where()});
    ASSERT_TRUE(broker) << broker.error().message;
    broker_.emplace(*std::move(broker));
    loop_ = std::thread([this] {
      while (!over_) {
        pollfd ready{broker_->fd().get(), POLLIN, 0};
        if (::poll(&ready, 1, 10) <= 0) continue;
        const std::lock_guard lock(mutex_);
        broker_->on_ready();
      }
    });
  }
  void TearDown() override {
    over_ = true;
    if (loop_.joinable()) loop_.join();
  }

  Box start(const std::vector<std::string>& terms) {
    plan::SandboxSpec spec;
    spec.command = {"/usr/bin/python3", "-c", kScript};
    spec.authority = granting(terms);
    const auto plan = plan::make_plan(spec, *host::read_facts());
    EXPECT_TRUE(plan) << plan.error().message;
    Box box;
    int in[2];
    int out[2];
    EXPECT_EQ(::pipe2(in, O_CLOEXEC) + ::pipe2(out, O_CLOEXEC), 0);
    auto remote = launcher_->start_box(*plan, {in[0], out[1], 2});
    EXPECT_TRUE(remote) << remote.error().message;
    ::close(in[0]);
    ::close(out[1]);
    box.remote = *std::move(remote);
    box.in = UniqueFd(in[1]);
    box.out = UniqueFd(out[0]);
    auto packet = launch::receive_packet(box.remote.status, sizeof(launch::Message));
    EXPECT_TRUE(packet);
    auto files = launch::network_files(std::move(packet->fds), *plan->network);
    EXPECT_TRUE(files) << files.error().message;
    const std::lock_guard lock(mutex_);
    box.id = *broker_->add(*plan->network,
                           [ledger = box.ledger.get()](const Event& event) { ledger->add(event); });
    EXPECT_TRUE(broker_->start(box.id, *std::move(files)));
    return box;
  }
  std::size_t narrow(const Box& box, const std::vector<std::string>& terms, Existing existing) {
    const std::lock_guard lock(mutex_);
    const auto narrowed = broker_->narrow(box.id, granting(terms), existing);
    EXPECT_TRUE(narrowed);
    return narrowed->cut;
  }

  DnsServer dns_{"127.50.0.53"};
  TcpServer server_{kHost, test::echo()};
  std::optional<launch::LauncherClient> launcher_;
  std::optional<Broker> broker_;
  std::mutex mutex_;
  std::atomic<bool> over_{false};
  std::thread loop_;
};

TEST_F(ManyBoxes, EachHasItsOwnAuthority) {
  const Box first = start({"connect=web.test:" + server_.port(), "connect=" + server_.where()});
  const Box second = start({"connect=192.0.2.1:80"});
  EXPECT_EQ(first.ask("web.test " + server_.port()), "ok");
  EXPECT_EQ(first.ask("192.0.2.1 80"), std::to_string(EACCES));
  EXPECT_EQ(second.ask(std::string(kHost) + " " + server_.port()), std::to_string(ECONNREFUSED));
  EXPECT_EQ(second.ask("10.0.0.1 80"), std::to_string(EACCES));
  EXPECT_EQ(first.ask("web.test " + server_.port()), "ok");
}

TEST_F(ManyBoxes, WhatOneHasLookedUpIsNotTheOthers) {
  const Box first = start({"connect=*.test:*", "connect=" + server_.where()});
  const Box second = start({"connect=other.test:*"});
  EXPECT_EQ(first.ask("web.test " + server_.port()), "ok");
  EXPECT_EQ(second.ask("web.test " + server_.port()), "no name");
}

TEST_F(ManyBoxes, NarrowingHoldsForNewConnections) {
  const Box box = start({"connect=" + server_.where(), "connect=8.8.8.8:53"});
  const std::string there = std::string(kHost) + " " + server_.port();
  EXPECT_EQ(box.ask(there), "ok");
  EXPECT_EQ(narrow(box, {"connect=8.8.8.8:53"}, Existing::Keep), 0U);
  EXPECT_EQ(box.ask(there), std::to_string(ECONNREFUSED)) << "its own loopback by now";
  EXPECT_EQ(narrow(box, {"connect=" + server_.where()}, Existing::Keep), 0U);
  EXPECT_EQ(box.ask(there), std::to_string(ECONNREFUSED)) << "what is gone does not come back";
}

TEST_F(ManyBoxes, CuttingEndsWhatIsNoLongerGranted) {
  const Box box = start({"connect=" + server_.where()});
  EXPECT_EQ(box.ask(std::string(kHost) + " " + server_.port()), "ok");
  box.tell("read");  // waits for bytes that do not come
  while (narrow(box, {}, Existing::Cut) == 0) std::this_thread::yield();
  EXPECT_EQ(box.hear(), "b''");
}

TEST_F(ManyBoxes, OneThatWaitsHoldsUpNobody) {
  const Blackhole hole("127.50.0.9");
  const Box stuck = start({"connect=" + hole.where()});
  const Box other = start({"connect=" + server_.where()});
  stuck.tell("127.50.0.9 " + hole.port());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(other.ask(std::string(kHost) + " " + server_.port()), "ok");
  }
  pollfd answered{stuck.out.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&answered, 1, 0), 0) << "it waits still";
}

TEST_F(ManyBoxes, ABoxThatDiesWhileItWaitsLeavesNothing) {
  const Blackhole hole("127.50.0.9");
  for (int i = 0; i < 5; ++i) {
    Box stuck = start({"connect=" + hole.where()});
    stuck.tell("127.50.0.9 " + hole.port());
    stuck.remote.status.reset();  // init ends with its supervisor
    EXPECT_EQ(stuck.hear(), "<end>");
    const std::lock_guard lock(mutex_);
    broker_->remove(stuck.id);
  }
  const Box other = start({"connect=" + server_.where()});
  EXPECT_EQ(other.ask(std::string(kHost) + " " + server_.port()), "ok");
}

}  // namespace
}  // namespace glovebox::egress
