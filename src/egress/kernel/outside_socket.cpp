#include "egress/kernel/outside_socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include <linux/filter.h>
#include <netinet/tcp.h>

namespace glovebox::egress {
namespace {

using Program = std::vector<sock_filter>;

constexpr int kBufferLock = 72;     // SO_BUF_LOCK
constexpr int kNetworkCookie = 71;  // SO_NETNS_COOKIE
constexpr int kSendLocked = 1;      // SOCK_SNDBUF_LOCK
constexpr int kReceiveLocked = 2;   // SOCK_RCVBUF_LOCK

struct Option {
  int level;
  int name;
};

// Plain numbers, copied when they differ from what a new socket has.
constexpr Option kNumbers[] = {
    {SOL_SOCKET, SO_KEEPALIVE},       {SOL_SOCKET, SO_OOBINLINE},   {SOL_SOCKET, SO_PRIORITY},
    {SOL_SOCKET, SO_RCVLOWAT},        {IPPROTO_TCP, TCP_NODELAY},   {IPPROTO_TCP, TCP_CORK},
    {IPPROTO_TCP, TCP_KEEPIDLE},      {IPPROTO_TCP, TCP_KEEPINTVL}, {IPPROTO_TCP, TCP_KEEPCNT},
    {IPPROTO_TCP, TCP_USER_TIMEOUT},  {IPPROTO_TCP, TCP_SYNCNT},    {IPPROTO_TCP, TCP_LINGER2},
    {IPPROTO_TCP, TCP_NOTSENT_LOWAT}, {IPPROTO_IP, IP_TOS},
};

std::optional<int> number(int fd, Option option) {
  int value = 0;
  socklen_t length = sizeof(value);
  if (::getsockopt(fd, option.level, option.name, &value, &length) != 0) return std::nullopt;
  return value;
}

// An option that cannot be copied leaves the connection slower or less patient, not unsafe.
void set_number(int fd, Option option, int value) {
  (void)::setsockopt(fd, option.level, option.name, &value, sizeof(value));
}

template <class T>
void copy_struct(int from, int to, Option option) {
  T value{};
  T usual{};
  socklen_t length = sizeof(value);
  if (::getsockopt(from, option.level, option.name, &value, &length) != 0) return;
  if (std::memcmp(&value, &usual, sizeof(value)) == 0) return;
  (void)::setsockopt(to, option.level, option.name, &value, sizeof(value));  // as above
}

// Sizes are set by the program or left to the kernel, which then adapts them; that is kept too. The
// kernel doubles what it is given.
void copy_buffers(int from, int to) {
  const int locked = number(from, {SOL_SOCKET, kBufferLock}).value_or(0);
  if ((locked & kSendLocked) != 0) {
    set_number(to, {SOL_SOCKET, SO_SNDBUF}, number(from, {SOL_SOCKET, SO_SNDBUF}).value_or(0) / 2);
  }
  if ((locked & kReceiveLocked) != 0) {
    set_number(to, {SOL_SOCKET, SO_RCVBUF}, number(from, {SOL_SOCKET, SO_RCVBUF}).value_or(0) / 2);
  }
}

constexpr Option kNumbersV6[] = {{IPPROTO_IPV6, IPV6_V6ONLY}, {IPPROTO_IPV6, IPV6_TCLASS}};

// What a new socket has, asked once. The host's settings may change later; then an option is copied
// that need not be.
const std::vector<std::optional<int>>& usual_numbers(std::span<const Option> options, int domain) {
  const auto ask = [&] {
    const UniqueFd fresh(::socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0));
    std::vector<std::optional<int>> values;
    for (const Option& option : options) values.push_back(number(fresh.get(), option));
    return values;
  };
  if (domain == AF_INET) {
    static const std::vector<std::optional<int>> v4 = ask();
    return v4;
  }
  static const std::vector<std::optional<int>> v6 = ask();
  return v6;
}

void copy_numbers(int from, int to, std::span<const Option> options,
                  const std::vector<std::optional<int>>& usual) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    const auto wanted = number(from, options[i]);
    if (wanted && wanted != usual[i]) set_number(to, options[i], *wanted);
  }
}

void copy_options(int from, int to, int domain) {
  copy_numbers(from, to, kNumbers, usual_numbers(kNumbers, AF_INET));
  if (domain == AF_INET6) copy_numbers(from, to, kNumbersV6, usual_numbers(kNumbersV6, AF_INET6));
  copy_struct<linger>(from, to, {SOL_SOCKET, SO_LINGER});
  copy_struct<timeval>(from, to, {SOL_SOCKET, SO_RCVTIMEO});
  copy_struct<timeval>(from, to, {SOL_SOCKET, SO_SNDTIMEO});
  copy_buffers(from, to);
}

constexpr std::uint32_t kTakeAll = 0xffff'ffff;
constexpr std::uint32_t kDrop = 0;
constexpr std::uint32_t kNetworkHeader = static_cast<std::uint32_t>(SKF_NET_OFF);
constexpr std::uint32_t kV4Source = 12;
constexpr std::uint32_t kV6Source = 8;
constexpr std::uint32_t kTcpFlags = 13;
constexpr std::uint32_t kSynAck = 0x12;

void load_word(Program& program, std::uint32_t offset) {
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

// Goes on when the value is the wanted one, drops the packet when not.
void demand(Program& program, std::uint32_t value) {
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, kDrop));
}

std::uint32_t word_at(const authority::IpNetwork::Bytes& bytes, std::size_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof(word));
  return ntohl(word);
}

Result<void> lock_filter(BorrowedFd socket, Program& program) {
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  const int on = 1;
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) != 0 ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof(on)) != 0) {
    return fail_os(errno, "put a packet filter on a socket");
  }
  return {};
}

}  // namespace

std::uint64_t network_of(BorrowedFd socket) {
  std::uint64_t cookie = 0;
  socklen_t length = sizeof(cookie);
  const bool known = ::getsockopt(socket.get(), SOL_SOCKET, kNetworkCookie, &cookie, &length) == 0;
  return known ? cookie : 0;
}

std::uint64_t cookie_of(BorrowedFd socket) {
  std::uint64_t cookie = 0;
  socklen_t length = sizeof(cookie);
  const bool known = ::getsockopt(socket.get(), SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0;
  return known ? cookie : 0;
}

std::optional<SocketKind> kind_of(BorrowedFd socket) {
  const auto domain = number(socket.get(), {SOL_SOCKET, SO_DOMAIN});
  const auto type = domain ? number(socket.get(), {SOL_SOCKET, SO_TYPE}) : std::nullopt;
  if (!type) return std::nullopt;
  return SocketKind{*domain, *type};
}

UniqueFd make_plain(int domain) {
  return UniqueFd(::socket(domain, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Result<UniqueFd> make_like(BorrowedFd original, int domain, UniqueFd spare) {
  UniqueFd made = spare ? std::move(spare) : make_plain(domain);
  if (!made) return fail_os(errno, "make a socket outside");
  copy_options(original.get(), made.get(), domain);
  return made;
}

Result<void> hear_only(BorrowedFd socket, const Endpoint& peer) {
  const authority::IpNetwork::Bytes& bytes = peer.address.bytes();
  Program program;
  if (peer.address.family() == authority::Family::V4) {
    load_word(program, kNetworkHeader + kV4Source);
    demand(program, word_at(bytes, 0));
  } else {
    for (std::uint32_t at = 0; at < bytes.size(); at += 4) {
      load_word(program, kNetworkHeader + kV6Source + at);
      demand(program, word_at(bytes, at));
    }
  }
  program.push_back(BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0));  // the port it comes from
  demand(program, peer.port);
  program.push_back(BPF_STMT(BPF_RET | BPF_K, kTakeAll));
  return lock_filter(socket, program);
}

// Going out needs the answer to one's own first packet, which has both flags.
Result<void> never_connect(BorrowedFd socket) {
  Program program{BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kTcpFlags),
                  BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kSynAck),
                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kSynAck, 0, 1),
                  BPF_STMT(BPF_RET | BPF_K, kDrop), BPF_STMT(BPF_RET | BPF_K, kTakeAll)};
  return lock_filter(socket, program);
}

std::optional<std::chrono::microseconds> send_timeout(BorrowedFd socket) {
  timeval value{};
  socklen_t length = sizeof(value);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &value, &length) != 0)
    return std::nullopt;
  const auto time = std::chrono::seconds(value.tv_sec) + std::chrono::microseconds(value.tv_usec);
  if (time.count() == 0) return std::nullopt;
  return time;
}

ConnectProgress progress_of(BorrowedFd socket) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) {
    return {ConnectState::Failed, errno};
  }
  if (info.tcpi_state == TCP_SYN_SENT || info.tcpi_state == TCP_SYN_RECV) {
    return {ConnectState::UnderWay, 0};
  }
  if (info.tcpi_state != TCP_CLOSE) return {ConnectState::Done, 0};
  const int error = number(socket.get(), {SOL_SOCKET, SO_ERROR}).value_or(0);
  return error != 0 ? ConnectProgress{ConnectState::Failed, error} : ConnectProgress{};
}

}  // namespace glovebox::egress
