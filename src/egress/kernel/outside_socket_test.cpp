// Asks the kernel: what a socket that was locked to one peer can still do.
#include "egress/kernel/outside_socket.h"

#include "egress/kernel/peer_filters.h"

#include <gtest/gtest.h>

#include <cerrno>

#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

namespace glovebox::egress {
namespace {

Endpoint loopback(std::uint16_t port) { return {*authority::IpNetwork::parse("127.0.0.1"), port}; }

struct Listener {
  UniqueFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  Endpoint where = loopback(0);

  Listener() {
    const RawAddress any = raw_address(where, AF_INET);
    EXPECT_EQ(::bind(fd.get(), any.get(), any.length), 0);
    EXPECT_EQ(::listen(fd.get(), 8), 0);
    sockaddr_storage bound{};
    socklen_t length = sizeof(bound);
    EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &length), 0);
    where = *endpoint_of(bound);
  }
};

int connect_to(const UniqueFd& socket, const Endpoint& to) {
  const RawAddress raw = raw_address(to, AF_INET);
  return ::connect(socket.get(), raw.get(), raw.length) == 0 ? 0 : errno;
}

// Whether a connect is through within a short while. One that is dropped stays under way.
bool gets_through(const UniqueFd& socket, const Endpoint& to) {
  const int error = connect_to(socket, to);
  if (error != 0 && error != EINPROGRESS) return false;
  pollfd ready{socket.get(), POLLOUT, 0};
  return ::poll(&ready, 1, 300) > 0 && progress_of(socket).state == ConnectState::Done;
}

class OutsideSocket : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: this kernel keeps packet filters for it";
  }
  UniqueFd plain{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

TEST_F(OutsideSocket, HearsItsPeerAndNobodyElse) {
  const Listener granted;
  const Listener other;
  const auto socket = make_like(plain, AF_INET);
  ASSERT_TRUE(socket);
  ASSERT_TRUE(hear_only(*socket, granted.where));
  EXPECT_TRUE(gets_through(*socket, granted.where));

  const auto second = make_like(plain, AF_INET);
  ASSERT_TRUE(hear_only(*second, granted.where));
  EXPECT_FALSE(gets_through(*second, other.where));
}

// The third socket to a peer has the program that was loaded at the second.
TEST_F(OutsideSocket, AFilterThatIsKeptDoesTheSame) {
  const Listener granted;
  const Listener other;
  PeerFilters filters;
  for (int i = 0; i < 2; ++i) filters.remember(granted.where);
  if (!filters.has_program(granted.where)) GTEST_SKIP() << "this kernel takes no programs from us";
  EXPECT_FALSE(filters.has_program(other.where));
  const auto socket = make_like(plain, AF_INET);
  ASSERT_TRUE(filters.hear_only(*socket, granted.where));
  EXPECT_TRUE(gets_through(*socket, granted.where));
  const int zero = 0;
  EXPECT_NE(::setsockopt(socket->get(), SOL_SOCKET, SO_DETACH_FILTER, &zero, sizeof(zero)), 0);
  EXPECT_FALSE(hear_only(*socket, other.where)) << "it is locked";
  const auto second = make_like(plain, AF_INET);
  ASSERT_TRUE(filters.hear_only(*second, granted.where));
  EXPECT_FALSE(gets_through(*second, other.where));
  for (std::uint16_t port = 1; port <= 1000; ++port) filters.remember(loopback(port));
  EXPECT_FALSE(filters.has_program(granted.where)) << "the oldest are forgotten";
}

TEST_F(OutsideSocket, AFilterThatIsKeptWorksForIpv6) {
  PeerFilters filters;
  const Endpoint peer{*authority::IpNetwork::parse("::1"), 9};
  for (int i = 0; i < 2; ++i) filters.remember(peer);
  EXPECT_EQ(filters.has_program(peer), [&] {
    PeerFilters again;
    for (int i = 0; i < 2; ++i) again.remember(loopback(9));
    return again.has_program(loopback(9));
  }()) << "as IPv4 does";
}

TEST_F(OutsideSocket, CannotListen) {
  const Listener granted;
  const auto socket = make_like(plain, AF_INET);
  ASSERT_TRUE(hear_only(*socket, granted.where));
  const RawAddress any = raw_address(loopback(0), AF_INET);
  ASSERT_EQ(::bind(socket->get(), any.get(), any.length), 0);
  ASSERT_EQ(::listen(socket->get(), 8), 0);
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  ASSERT_EQ(::getsockname(socket->get(), reinterpret_cast<sockaddr*>(&bound), &length), 0);
  const auto visitor = make_like(plain, AF_INET);
  EXPECT_FALSE(gets_through(*visitor, *endpoint_of(bound)));
}

TEST_F(OutsideSocket, TheLockStays) {
  const Listener granted;
  const auto socket = make_like(plain, AF_INET);
  ASSERT_TRUE(hear_only(*socket, granted.where));
  const int zero = 0;
  EXPECT_NE(::setsockopt(socket->get(), SOL_SOCKET, SO_DETACH_FILTER, &zero, sizeof(zero)), 0);
  EXPECT_NE(::setsockopt(socket->get(), SOL_SOCKET, SO_LOCK_FILTER, &zero, sizeof(zero)), 0);
  EXPECT_FALSE(hear_only(*socket, granted.where));
}

TEST_F(OutsideSocket, OneThatListensCannotGoOut) {
  const Listener other;
  const auto socket = make_like(plain, AF_INET);
  ASSERT_TRUE(never_connect(*socket));
  EXPECT_FALSE(gets_through(*socket, other.where));
}

TEST(MakeLike, CopiesOptions) {
  const UniqueFd plain(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto set = [&](int level, int name, int value) {
    ASSERT_EQ(::setsockopt(plain.get(), level, name, &value, sizeof(value)), 0);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 17);
  set(SOL_SOCKET, SO_SNDBUF, 50'000);
  const timeval wait{3, 0};
  ASSERT_EQ(::setsockopt(plain.get(), SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)), 0);
  const auto made = make_like(plain, AF_INET);
  ASSERT_TRUE(made);
  const auto get = [&](const UniqueFd& socket, int level, int name) {
    int value = 0;
    socklen_t length = sizeof(value);
    EXPECT_EQ(::getsockopt(socket.get(), level, name, &value, &length), 0);
    return value;
  };
  for (const auto& [level, name] : {std::pair(SOL_SOCKET, SO_KEEPALIVE),
                                    {IPPROTO_TCP, TCP_NODELAY},
                                    {IPPROTO_TCP, TCP_KEEPIDLE},
                                    {SOL_SOCKET, SO_SNDBUF},
                                    {SOL_SOCKET, SO_RCVBUF}}) {
    EXPECT_EQ(get(*made, level, name), get(plain, level, name)) << level << " " << name;
  }
  EXPECT_EQ(send_timeout(*made), std::chrono::seconds(3));
}

}  // namespace
}  // namespace glovebox::egress
