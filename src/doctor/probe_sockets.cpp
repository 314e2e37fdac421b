#include "doctor/kernel_calls.h"
#include "doctor/probe_trials.h"

#include <array>
#include <cerrno>
#include <cstdint>

#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace glovebox::host::probe {
namespace {

constexpr int kPatienceMs = 2000;

// A UDP socket on loopback, and where it is.
UniqueFd bound_socket(sockaddr_in& where) {
  UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(where);
  auto* generic = reinterpret_cast<sockaddr*>(&where);
  if (::bind(socket.get(), generic, length) != 0 ||
      ::getsockname(socket.get(), generic, &length) != 0) {
    return {};
  }
  return socket;
}

bool arrives(const UniqueFd& socket, const sockaddr_in& where) {
  const UniqueFd sender(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto* generic = reinterpret_cast<const sockaddr*>(&where);
  // On loopback a datagram is there when the call returns.
  (void)!::sendto(sender.get(), "x", 1, 0, generic, sizeof(where));
  char byte = 0;
  return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 1;
}

}  // namespace

// What the broker does to each socket that it hands in as root, with a filter that takes nothing.
Reply try_socket_filter(const Stage& /*stage*/) {
  sockaddr_in where{};
  const UniqueFd socket = bound_socket(where);
  if (!socket) return failed("bind a socket to loopback");
  if (!arrives(socket, where)) return wrong("a datagram on loopback did not arrive");
  sock_filter take_nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &take_nothing};
  const int on = 1;
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0) {
    return failed("put a packet filter on a socket");
  }
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof(on)) != 0) {
    return failed("lock a packet filter");
  }
  if (arrives(socket, where)) return wrong("the filter let a datagram through");
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_DETACH_FILTER, &on, sizeof(on)) == 0) {
    return wrong("a locked filter could be taken away");
  }
  return seen("a locked filter dropped a datagram");
}

// How the broker learns that a connection has ended, and how much it carried.
Reply try_socket_tables(const Stage& /*stage*/) {
  const UniqueFd news(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  sockaddr_nl groups{};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = 1U << (SKNLGRP_INET_TCP_DESTROY - 1);
  if (!news) return failed("open the kernel's socket tables");
  if (::bind(news.get(), reinterpret_cast<const sockaddr*>(&groups), sizeof(groups)) != 0) {
    return failed("watch the kernel's socket tables");
  }
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return failed("make a socket");
  socket.reset();
  pollfd wait{news.get(), POLLIN, 0};
  if (::poll(&wait, 1, kPatienceMs) != 1) return wrong("the end of a socket was not told");
  return seen("the end of a socket was told");
}

}  // namespace glovebox::host::probe
