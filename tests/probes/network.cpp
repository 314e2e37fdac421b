// Sockets: which families exist, what can be reached, and whether loopback works inside.
#include "probe.h"

#include <cerrno>
#include <cstring>
#include <string>

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

constexpr int kConnectTimeoutMs = 3000;

union Address {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

socklen_t fill_address(Address& address, const char* host, int port) {
  address = {};
  if (inet_pton(AF_INET, host, &address.v4.sin_addr) == 1) {
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(static_cast<std::uint16_t>(port));
    return sizeof address.v4;
  }
  if (inet_pton(AF_INET6, host, &address.v6.sin6_addr) == 1) {
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_port = htons(static_cast<std::uint16_t>(port));
    return sizeof address.v6;
  }
  say("'%s' is not an address", host);
  _exit(kUsage);
}

// Connects without blocking for ever: an address that swallows packets ends as ETIMEDOUT.
int connect_within(int fd, const sockaddr* address, socklen_t length) {
  if (connect(fd, address, length) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waiting{fd, POLLOUT, 0};
  if (poll(&waiting, 1, kConnectTimeoutMs) == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

int try_connect_tcp(Args args) {
  Address address{};
  const socklen_t length = fill_address(address, text(args, 0), static_cast<int>(number(args, 1)));
  const int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  return connect_within(fd, &address.any, length);
}

int try_send_udp(Args args) {
  Address address{};
  const socklen_t length = fill_address(address, text(args, 0), static_cast<int>(number(args, 1)));
  const int fd = socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  return met(sendto(fd, "probe", 5, 0, &address.any, length));
}

// HOST PORT [HOW]: by sendmsg(2); HOW is 'many' for sendmmsg(2) with a message to its own loopback
// behind, 'own' for two that go there and 'stream' for a flag of streams.
int try_send_message(Args args) {
  Address address{};
  const std::string how = args.size() > 2 ? text(args, 2) : "";
  const socklen_t length = fill_address(address, text(args, 0), static_cast<int>(number(args, 1)));
  const int fd = socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  char bytes[] = "probe";
  iovec part{bytes, 5};
  mmsghdr messages[2]{};
  for (mmsghdr& each : messages) {
    each.msg_hdr.msg_name = &address.any;
    each.msg_hdr.msg_namelen = length;
    each.msg_hdr.msg_iov = &part;
    each.msg_hdr.msg_iovlen = 1;
  }
  Address own{};
  messages[1].msg_hdr.msg_namelen = fill_address(own, "127.0.0.1", 9);
  messages[1].msg_hdr.msg_name = &own.any;
  if (how == "many") return met(sendmmsg(fd, messages, 2, 0));
  if (how == "own") return sendmmsg(fd, messages + 1, 1, 0) == 1 ? 0 : errno;
  return met(sendmsg(fd, &messages[0].msg_hdr, how == "stream" ? MSG_NOSIGNAL : 0));
}

int try_connect_udp(Args args) {
  Address address{};
  const socklen_t length = fill_address(address, text(args, 0), static_cast<int>(number(args, 1)));
  const int fd = socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  return fd < 0 ? errno : met(connect(fd, &address.any, length));
}

int try_bind_tcp(Args args) {
  Address address{};
  const socklen_t length = fill_address(address, text(args, 0), static_cast<int>(number(args, 1)));
  const int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  if (bind(fd, &address.any, length) != 0) return errno;
  return met(listen(fd, 1));
}

// A whole conversation with itself on HOST: listen, connect, accept, one byte.
int try_loopback(Args args) {
  Address address{};
  socklen_t length = fill_address(address, text(args, 0), 0);
  const int server = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (server < 0) return errno;
  if (bind(server, &address.any, length) != 0 || listen(server, 1) != 0) return errno;
  if (getsockname(server, &address.any, &length) != 0) return errno;
  const int client = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int error = connect_within(client, &address.any, length);
  if (error != 0) return error;
  const int accepted = accept4(server, nullptr, nullptr, SOCK_CLOEXEC);
  if (accepted < 0) return errno;
  char byte = 'x';
  if (write(client, &byte, 1) != 1 || read(accepted, &byte, 1) != 1) return errno;
  return 0;
}

int try_socket(Args args) {
  const auto family = static_cast<int>(number(args, 0));
  const auto type = static_cast<int>(number(args, 1));
  const auto protocol = args.size() > 2 ? static_cast<int>(number(args, 2)) : 0;
  return met(socket(family, type | SOCK_CLOEXEC, protocol));
}

// Every family and type. Prints "open FAMILY TYPE" for each one that the kernel handed out.
int sweep_sockets(Args) {
  for (int family = 0; family <= 50; ++family) {
    for (const int type : {1, 2, 3, 4, 5, 6, 10}) {
      const int fd = socket(family, type, 0);
      if (fd < 0) continue;
      say("open %d %d", family, type);
      close(fd);
    }
  }
  return 0;
}

// EBADE when a socket of another kind than Unix, TCP and UDP can be made.
int check_families(Args) {
  int problems = 0;
  for (int family = 0; family <= 50; ++family) {
    for (const int type : {1, 2, 3, 4, 5, 6, 10}) {
      const int fd = socket(family, type | SOCK_CLOEXEC, 0);
      if (fd < 0) continue;
      close(fd);
      const bool plain = type == SOCK_STREAM || type == SOCK_DGRAM;
      const bool local = family == AF_UNIX && (plain || type == SOCK_SEQPACKET || type == SOCK_RAW);
      if (local || ((family == AF_INET || family == AF_INET6) && plain)) continue;
      say("open %d %d", family, type);
      ++problems;
    }
  }
  return problems == 0 ? 0 : EBADE;
}

int try_netlink(Args args) {
  return met(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, static_cast<int>(number(args, 0))));
}

int list_interfaces(Args) {
  for (const char* name : {"lo", "eth0", "ens3", "wlan0", "docker0"}) {
    if (if_nametoindex(name) != 0) say("interface %s", name);
  }
  return 0;
}

constexpr Probe kProbes[] = {
    {"connect_tcp", try_connect_tcp, "HOST PORT: connects"},
    {"send_udp", try_send_udp, "HOST PORT: sends a datagram"},
    {"send_message", try_send_message, "HOST PORT [many|own|stream]: by sendmsg or sendmmsg"},
    {"connect_udp", try_connect_udp, "HOST PORT: connects a datagram socket"},
    {"bind_tcp", try_bind_tcp, "HOST PORT: binds and listens"},
    {"loopback", try_loopback, "HOST: talks to itself over TCP"},
    {"socket", try_socket, "FAMILY TYPE [PROTOCOL]: makes a socket"},
    {"socket_sweep", sweep_sockets, "prints every family and type that can be made"},
    {"socket_families", check_families, "checks that no odd kind of socket can be made"},
    {"netlink", try_netlink, "PROTOCOL: opens a netlink socket"},
    {"interfaces", list_interfaces, "prints the well-known interfaces that exist"},
};

}  // namespace

std::span<const Probe> network_probes() { return kProbes; }

}  // namespace glovebox::probe
