#include "egress/kernel/sock_diag.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

// The kernel's own tcp_info: Debian's C library has an older, shorter one.
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>

namespace glovebox::egress {
namespace {

constexpr std::size_t kBuffer = std::size_t{32} << 10;
constexpr int kReceiveBytes = 4 << 20;

UniqueFd open_diag() {
  return UniqueFd(
      ::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
}

std::uint64_t cookie_in(const inet_diag_sockid& id) {
  return std::uint64_t{id.idiag_cookie[0]} | std::uint64_t{id.idiag_cookie[1]} << 32U;
}

// A message is its header and then the body; both parts are laid out in steps of four.
constexpr std::size_t aligned(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

const inet_diag_msg& body_of(const nlmsghdr& header) {
  return *reinterpret_cast<const inet_diag_msg*>(&header + 1);
}

// Calls use(type, bytes) for each attribute of a message.
template <class Use>
void each_attribute(const nlmsghdr& header, Use use) {
  const auto* at = reinterpret_cast<const char*>(&body_of(header) + 1);
  std::size_t left = header.nlmsg_len - sizeof(header) - sizeof(inet_diag_msg);
  while (left >= sizeof(rtattr)) {
    rtattr attribute{};
    std::memcpy(&attribute, at, sizeof(attribute));
    if (attribute.rta_len < sizeof(attribute) || attribute.rta_len > left) return;
    use(attribute.rta_type,
        std::span(at + sizeof(attribute), attribute.rta_len - sizeof(attribute)));
    const std::size_t step = std::min(left, aligned(attribute.rta_len));
    at += step;
    left -= step;
  }
}

Counters counters_in(const nlmsghdr& header) {
  Counters counters;
  counters.bytes_queued = body_of(header).idiag_wqueue;
  each_attribute(header, [&](unsigned type, std::span<const char> bytes) {
    if (type != INET_DIAG_INFO) return;
    tcp_info info{};
    std::memcpy(&info, bytes.data(), std::min(sizeof(info), bytes.size()));
    counters.bytes_out = info.tcpi_bytes_acked;
    counters.bytes_in = info.tcpi_bytes_received;
  });
  return counters;
}

// Shut down both ways. A kernel that does not say so has not done it.
bool is_shut_down(const nlmsghdr& header) {
  constexpr char kBothWays = 3;
  bool shut = false;
  each_attribute(header, [&](unsigned type, std::span<const char> bytes) {
    if (type == INET_DIAG_SHUTDOWN && !bytes.empty()) shut = bytes.front() == kBothWays;
  });
  return shut;
}

bool holds_message(const nlmsghdr& header) {
  return header.nlmsg_type == SOCK_DIAG_BY_FAMILY &&
         header.nlmsg_len >= sizeof(nlmsghdr) + sizeof(inet_diag_msg);
}

template <class Use>
void each_message(std::span<const char> bytes, Use use) {
  while (bytes.size() >= sizeof(nlmsghdr)) {
    const auto* header = reinterpret_cast<const nlmsghdr*>(bytes.data());
    if (header->nlmsg_len < sizeof(nlmsghdr) || header->nlmsg_len > bytes.size()) return;
    use(*header);
    bytes = bytes.subspan(std::min(bytes.size(), aligned(header->nlmsg_len)));
  }
}

void put_address(const Endpoint& endpoint, int domain, __be32 (&address)[4], __be16& port) {
  const RawAddress raw = raw_address(endpoint, domain);
  if (domain == AF_INET) {
    std::memcpy(address, &reinterpret_cast<const sockaddr_in*>(raw.get())->sin_addr, 4);
  } else {
    std::memcpy(address, &reinterpret_cast<const sockaddr_in6*>(raw.get())->sin6_addr, 16);
  }
  port = htons(endpoint.port);
}

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

// An IPv4 connection of an IPv6 socket is found among the IPv4 ones.
Request request_for(const SocketName& name, std::uint16_t type) {
  const int family = name.peer.address.family() == authority::Family::V4 ? AF_INET : AF_INET6;
  Request request{};
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = type;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = static_cast<__u8>(family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_ext = 1U << (INET_DIAG_INFO - 1);
  request.body.idiag_states = ~0U;
  inet_diag_sockid& id = request.body.id;
  put_address(name.local, family, id.idiag_src, id.idiag_sport);
  put_address(name.peer, family, id.idiag_dst, id.idiag_dport);
  id.idiag_cookie[0] = static_cast<__u32>(name.cookie & 0xffff'ffffU);
  id.idiag_cookie[1] = static_cast<__u32>(name.cookie >> 32U);
  return request;
}

int error_in(const nlmsghdr& header) {
  if (header.nlmsg_type != NLMSG_ERROR || header.nlmsg_len < NLMSG_LENGTH(sizeof(nlmsgerr))) {
    return EPROTO;
  }
  return -reinterpret_cast<const nlmsgerr*>(&header + 1)->error;
}

Endpoint endpoint_in(int family, const __be32 (&address)[4], __be16 port) {
  if (family == AF_INET) {
    in_addr bytes{};
    std::memcpy(&bytes, address, sizeof(bytes));
    return {address_of(bytes), ntohs(port)};
  }
  in6_addr bytes{};
  std::memcpy(&bytes, address, sizeof(bytes));
  return {address_of(bytes), ntohs(port)};
}

Endings::Local local_in(const inet_diag_msg& message) {
  const int family = message.idiag_family;
  const inet_diag_sockid& id = message.id;
  return {{endpoint_in(family, id.idiag_src, id.idiag_sport),
           endpoint_in(family, id.idiag_dst, id.idiag_dport), family, cookie_in(id)},
          message.idiag_inode,
          message.idiag_uid};
}

// Of one family, into `found`. On a socket of its own: an answer that is not read to its end would
// be in the way of the next.
Result<void> read_sockets(int family, std::uint16_t port, std::vector<Endings::Local>& found) {
  // States from ESTABLISHED to NEW_SYN_RECV; those beyond are of sockets that are merely bound.
  constexpr unsigned kTimeWait = 6, kClose = 7, kFirst = 1, kLast = 12;
  const UniqueFd questions = open_diag();
  Request request{};
  request.header = {sizeof(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 0, 0};
  request.body.sdiag_family = static_cast<__u8>(family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states =
      ((1U << (kLast + 1)) - (1U << kFirst)) & ~(1U << kTimeWait | 1U << kClose);
  request.body.id.idiag_sport = htons(port);
  if (!questions || ::send(questions.get(), &request, sizeof(request), 0) < 0) {
    return fail_os(errno, "ask for the kernel's socket tables");
  }
  alignas(nlmsghdr) std::array<char, kBuffer> buffer;
  bool done = false;
  int error = 0;
  while (!done && error == 0) {
    const ssize_t size = ::recv(questions.get(), buffer.data(), buffer.size(), MSG_TRUNC);
    if (size <= 0) return fail_os(size == 0 ? EPROTO : errno, "read the kernel's socket tables");
    if (static_cast<std::size_t>(size) > buffer.size()) error = EMSGSIZE;
    each_message({buffer.data(), std::min(buffer.size(), static_cast<std::size_t>(size))},
                 [&](const nlmsghdr& header) {
                   if (header.nlmsg_type == NLMSG_DONE) done = true;
                   if (header.nlmsg_type == NLMSG_ERROR) error = error_in(header);
                   if (!holds_message(header) || is_shut_down(header)) return;
                   found.push_back(local_in(body_of(header)));
                 });
  }
  if (error != 0) return fail_os(error, "read the kernel's socket tables");
  return {};
}

}  // namespace

Result<Endings> Endings::open() {
  UniqueFd events = open_diag();
  UniqueFd questions = open_diag();
  if (!events || !questions) return fail_os(errno, "open the kernel's socket tables");
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = 1U << (SKNLGRP_INET_TCP_DESTROY - 1) | 1U << (SKNLGRP_INET6_TCP_DESTROY - 1);
  if (::bind(events.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return fail_os(errno, "watch the kernel's socket tables");
  }
  // A smaller one loses ends when very many come at once; look() finds them.
  (void)::setsockopt(events.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBytes, sizeof(kReceiveBytes));
  return Endings(std::move(events), std::move(questions));
}

bool Endings::take(const Ended& ended) const {
  constexpr int kAtOnce = 64;
  bool all = true;
  alignas(nlmsghdr) std::array<char, kBuffer> buffer;
  for (int i = 0; i < kAtOnce; ++i) {
    const ssize_t size = ::recv(events_.get(), buffer.data(), buffer.size(), 0);
    if (size < 0 && errno == ENOBUFS) {
      all = false;
      continue;
    }
    if (size <= 0) break;
    each_message({buffer.data(), static_cast<std::size_t>(size)}, [&](const nlmsghdr& header) {
      if (!holds_message(header)) return;
      ended(cookie_in(body_of(header).id), counters_in(header));
    });
  }
  return all;
}

Endings::Look Endings::look(const SocketName& name) const {
  const Request request = request_for(name, SOCK_DIAG_BY_FAMILY);
  if (::send(questions_.get(), &request, sizeof(request), 0) < 0) return {};
  alignas(nlmsghdr) std::array<char, kBuffer> buffer;
  const ssize_t size = ::recv(questions_.get(), buffer.data(), buffer.size(), 0);
  Look result;
  if (size <= 0) return result;
  each_message({buffer.data(), static_cast<std::size_t>(size)}, [&](const nlmsghdr& header) {
    if (!holds_message(header)) {
      // It is gone, or another has its addresses.
      const int error = error_in(header);
      if (error == ENOENT || error == ESTALE) result.fate = Fate::Over;
      return;
    }
    const inet_diag_msg& message = body_of(header);
    if (cookie_in(message.id) != name.cookie) return;
    const bool open = message.idiag_inode != 0 && !is_shut_down(header);
    result = {open ? Fate::Open : Fate::Over, counters_in(header)};
  });
  return result;
}

Result<std::vector<Endings::Local>> Endings::sockets_at(std::uint16_t port) const {
  std::vector<Local> found;
  TRY_VOID(read_sockets(AF_INET, port, found));
  TRY_VOID(read_sockets(AF_INET6, port, found));
  return found;
}

bool Endings::destroy(const SocketName& name) const {
  Request request = request_for(name, SOCK_DESTROY);
  request.header.nlmsg_flags |= NLM_F_ACK;
  if (::send(questions_.get(), &request, sizeof(request), 0) < 0) return false;
  struct Reply {
    nlmsghdr header;
    nlmsgerr error;
    std::array<char, kBuffer> rest;
  };
  Reply reply{};
  const ssize_t size = ::recv(questions_.get(), &reply, sizeof(reply), 0);
  return size >= static_cast<ssize_t>(NLMSG_LENGTH(sizeof(nlmsgerr))) &&
         reply.header.nlmsg_type == NLMSG_ERROR && reply.error.error == 0;
}

}  // namespace glovebox::egress
