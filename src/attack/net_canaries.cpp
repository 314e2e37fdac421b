#include "attack/net_canaries.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace glovebox::app {
namespace {

constexpr std::size_t kHeader = 12;
constexpr int kManyVisitors = 4096;

Result<UniqueFd> bind_at(const char* address, int type, int& port) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  socklen_t size = sizeof(where);
  auto* name = reinterpret_cast<sockaddr*>(&where);
  UniqueFd fd(::socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::inet_pton(AF_INET, address, &where.sin_addr) != 1 ||
      ::bind(fd.get(), name, size) != 0 ||
      (type == SOCK_STREAM && ::listen(fd.get(), kManyVisitors) != 0) ||
      ::getsockname(fd.get(), name, &size) != 0) {
    return fail_os(errno, "make a server at {} to be attacked", address);
  }
  port = ntohs(where.sin_port);
  return fd;
}

// The same port on ::1, where the host has that; without it there is nothing to reach.
UniqueFd bind_six(int port) {
  sockaddr_in6 where{};
  where.sin6_family = AF_INET6;
  where.sin6_port = htons(static_cast<std::uint16_t>(port));
  where.sin6_addr = in6addr_loopback;
  UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool listens = fd &&
                       ::bind(fd.get(), reinterpret_cast<sockaddr*>(&where), sizeof(where)) == 0 &&
                       ::listen(fd.get(), kManyVisitors) == 0;
  return listens ? std::move(fd) : UniqueFd();
}

bool is_readable(const UniqueFd& fd) {
  pollfd one{fd.get(), POLLIN, 0};
  return fd && ::poll(&one, 1, 0) > 0 && (one.revents & POLLIN) != 0;
}

struct Answer {
  std::string_view label;
  int family;
  const char* address;
};

// Names of the granted zone that lead to what a name's grant must not reach.
constexpr Answer kAnswers[] = {
    {"host", AF_INET, "127.0.0.1"},           {"any", AF_INET, "0.0.0.0"},
    {"other", AF_INET, "127.50.0.2"},         {"six", AF_INET6, "::1"},
    {"mapped", AF_INET6, "::ffff:127.0.0.1"}, {"translated", AF_INET6, "64:ff9b::7f00:1"},
};

bool ends_in_zone(std::string_view name) {
  const std::string zone = std::string(".") + NetCanaries::kZone;
  return name.ends_with(zone) || name == NetCanaries::kZone;
}

// The question with its header made an answer, and an address behind it if there is one.
std::string reply_to(std::string_view question, std::size_t end, std::string_view name) {
  std::string reply(question.substr(0, end));
  const auto kind = static_cast<unsigned char>(reply[end - 3]);
  reply[2] = '\x85';
  reply[3] = ends_in_zone(name) ? '\x80' : '\x83';
  std::memset(reply.data() + 6, 0, 6);
  for (const Answer& each : kAnswers) {
    const bool asked = kind == (each.family == AF_INET ? 1 : 28);
    if (!asked || !name.starts_with(std::string(each.label) + ".")) continue;
    std::array<char, 16> address{};
    const std::size_t size = each.family == AF_INET ? 4 : 16;
    if (::inet_pton(each.family, each.address, address.data()) != 1) continue;
    constexpr char kRecord[] = "\xc0\x0c\x00\x00\x00\x01\x00\x00\x00\x3c\x00";
    std::string record(kRecord, sizeof(kRecord) - 1);
    record[3] = static_cast<char>(kind);
    record += static_cast<char>(size);
    reply += record + std::string(address.data(), size);
    reply[7] = 1;
    break;
  }
  return reply;
}

}  // namespace

std::string question_name(std::string_view message) {
  std::string name;
  std::size_t at = kHeader;
  while (at < message.size() && message[at] != '\0') {
    const auto length = static_cast<unsigned char>(message[at]);
    if (length > 63 || at + 1 + length >= message.size()) return "";
    if (!name.empty()) name += '.';
    name += message.substr(at + 1, length);
    at += 1U + length;
  }
  return at + 5 <= message.size() ? name : "";
}

Result<NetCanaries> NetCanaries::make() {
  NetCanaries net;
  TRY(net.granted_, bind_at(kGranted, SOCK_STREAM, net.granted_port_));
  TRY(net.other_, bind_at(kOther, SOCK_STREAM, net.other_port_));
  TRY(net.host_, bind_at("127.0.0.1", SOCK_STREAM, net.host_port_));
  TRY(net.host_datagram_, bind_at("127.0.0.1", SOCK_DGRAM, net.host_port_));
  TRY(net.resolver_, bind_at(kResolver, SOCK_DGRAM, net.resolver_port_));
  net.host_six_ = bind_six(net.host_port_);
  return net;
}

std::string NetCanaries::resolver_text() const {
  return fmt::format("{}:{}", kResolver, resolver_port_);
}

std::vector<int> NetCanaries::descriptors() const { return {granted_.get(), resolver_.get()}; }

void NetCanaries::attend() {
  while (const UniqueFd visitor =
             UniqueFd(::accept4(granted_.get(), nullptr, nullptr, SOCK_CLOEXEC))) {
  }
  answer_questions();
}

void NetCanaries::answer_questions() {
  std::array<char, 2048> bytes{};
  sockaddr_in from{};
  socklen_t size = sizeof(from);
  ssize_t count = 0;
  auto* name = reinterpret_cast<sockaddr*>(&from);
  while ((count = ::recvfrom(resolver_.get(), bytes.data(), bytes.size(), 0, name, &size)) >= 0) {
    const std::string_view question(bytes.data(), static_cast<std::size_t>(count));
    const std::string asked = question_name(question);
    if (!ends_in_zone(asked) && stray_.empty()) stray_ = asked.empty() ? "?" : asked;
    if (!asked.empty()) {
      const std::string reply = reply_to(question, kHeader + asked.size() + 2 + 4, asked);
      (void)::sendto(resolver_.get(), reply.data(), reply.size(), 0, name,
                     size);  // who asked waits
    }
    size = sizeof(from);
  }
}

std::string NetCanaries::touched() {
  attend();
  if (!stray_.empty()) return "the name server was sent a question that no policy grants";
  const std::pair<const UniqueFd&, const char*> listeners[] = {
      {other_, "a server without a grant was reached"},
      {host_, "a service of the host was reached"},
      {host_datagram_, "a datagram reached the host"},
      {host_six_, "a service of the host was reached on ::1"},
  };
  for (const auto& [fd, what] : listeners) {
    if (is_readable(fd)) return what;
  }
  return "";
}

}  // namespace glovebox::app
