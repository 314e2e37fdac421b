// Ways around a filter of names and addresses: questions for the name server that say more than a
// name, names that lead to special places, sockets that another process connects.
#include "probe.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

constexpr int kAddress = 1, kText = 16, kAddress6 = 28;
using Labels = std::vector<std::string>;

struct Reply {
  int code = -1;  // of DNS; -1 when none came
  int answers = 0;
  std::vector<std::array<unsigned char, 16>> addresses{};
  std::vector<int> families{};
};

Labels labels_of(const std::string& name) {
  Labels labels(1);
  for (const char each : name) {
    if (each == '.') {
      labels.emplace_back();
    } else {
      labels.back() += each;
    }
  }
  return labels;
}

std::string question(const Labels& labels, int kind) {
  std::string message("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00", 12);
  for (const std::string& label : labels) {
    message += static_cast<char>(label.size());
    message += label;
  }
  message += '\0';
  message += '\0';
  message += static_cast<char>(kind);
  message += std::string("\x00\x01", 2);
  return message;
}

// The addresses behind a question that was sent back with its answers; names are pointers.
void read_answers(const std::string& message, std::size_t at, Reply& reply) {
  for (int i = 0; i < reply.answers && at + 12 <= message.size(); ++i) {
    while (at < message.size() && (message[at] & 0xc0) != 0xc0 && message[at] != 0) {
      at += 1U + static_cast<unsigned char>(message[at]);
    }
    at += (at < message.size() && message[at] == 0) ? 1 : 2;
    if (at + 10 > message.size()) return;
    const auto size = static_cast<std::size_t>(static_cast<unsigned char>(message[at + 9]));
    at += 10;
    if ((size != 4 && size != 16) || at + size > message.size()) return;
    std::array<unsigned char, 16> address{};
    std::memcpy(address.data(), message.data() + at, size);
    reply.addresses.push_back(address);
    reply.families.push_back(size == 4 ? AF_INET : AF_INET6);
    at += size;
  }
}

sockaddr_in resolver() {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(53);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return where;
}

Reply ask(const Labels& labels, int kind) {
  const std::string message = question(labels, kind);
  const sockaddr_in where = resolver();
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  Reply reply;
  // Connected, so that the kernel says at once when no server is there.
  if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0 ||
      send(fd, message.data(), message.size(), 0) < 0) {
    if (fd >= 0) close(fd);
    return reply;
  }
  pollfd ready{fd, POLLIN, 0};
  char bytes[2048];
  const ssize_t count = poll(&ready, 1, 3000) == 1 ? recv(fd, bytes, sizeof bytes, 0) : -1;
  close(fd);
  if (count < 12) return reply;
  reply.code = bytes[3] & 15;
  reply.answers = static_cast<unsigned char>(bytes[7]);
  read_answers(std::string(bytes, static_cast<std::size_t>(count)), message.size(), reply);
  return reply;
}

bool was_answered(const Reply& reply) { return reply.code == 0 && reply.answers > 0; }

// NAME: 0 when it was answered, ENOENT when there is no such name, ETIMEDOUT when there is no
// answer.
int ask_name(Args args) {
  const Reply reply = ask(labels_of(text(args, 0)), kAddress);
  if (was_answered(reply)) return 0;
  return reply.code < 0 ? ETIMEDOUT : ENOENT;
}

// ZONE: bytes that no library would send in a name, below and beside a zone that is granted. 0 when
// one of them was answered.
int ask_odd(Args args) {
  const Labels zone = labels_of(text(args, 0));
  const std::string odd[] = {
      std::string("evil\0", 5),       "a b", "x\r\n", "\xc3\xa9", "%00", "-x",
      std::string("e.example\0", 10), "a.b", "*",     "\xff",     "@",   "x_y!"};
  int answered = 0, silent = 0;
  for (const std::string& label : odd) {
    Labels labels{label};
    labels.insert(labels.end(), zone.begin(), zone.end());
    const Reply reply = ask(labels, kAddress);
    if (was_answered(reply)) ++answered;
    if (reply.code < 0) ++silent;
  }
  // The whole zone as one label is another name than the zone.
  if (was_answered(ask({std::string("host.") + text(args, 0)}, kAddress))) ++answered;
  say("answered %d silent %d", answered, silent);
  return answered > 0 ? 0 : ENOENT;
}

// ZONE SECRET: a secret in labels of a zone without a grant, in every type of question that
// carries data; and the same over TCP. 0 when one was answered.
int ask_with_secret(Args args) {
  const std::string zone = text(args, 0), secret = text(args, 1);
  int answered = 0;
  for (const int kind : {kAddress, kAddress6, kText, 10, 15, 33, 255, 65}) {
    for (int i = 0; i < 4; ++i) {
      const std::string name = secret + "x" + std::to_string(i) + "." + zone;
      if (was_answered(ask(labels_of(name), kind))) ++answered;
    }
  }
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in where = resolver();
  if (connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0) {
    const std::string message = question(labels_of(secret + ".tcp." + zone), kAddress);
    const char head[2] = {0, static_cast<char>(message.size())};
    char bytes[512];
    const timeval patience{3, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (write(fd, head, 2) == 2 && write(fd, message.data(), message.size()) > 0 &&
        read(fd, bytes, sizeof bytes) > 14 && (bytes[5] & 15) == 0 && bytes[9] > 0) {
      ++answered;
    }
  }
  return answered > 0 ? 0 : ENOENT;
}

int connect_to(const std::array<unsigned char, 16>& address, int family, int port) {
  sockaddr_in6 six{};
  sockaddr_in four{};
  six.sin6_family = AF_INET6;
  four.sin_family = AF_INET;
  six.sin6_port = four.sin_port = htons(static_cast<std::uint16_t>(port));
  std::memcpy(&six.sin6_addr, address.data(), 16);
  std::memcpy(&four.sin_addr, address.data(), 4);
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const timeval patience{2, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const int result = family == AF_INET
                         ? connect(fd, reinterpret_cast<sockaddr*>(&four), sizeof four)
                         : connect(fd, reinterpret_cast<sockaddr*>(&six), sizeof six);
  const int error = result == 0 ? 0 : errno;
  close(fd);
  return error;
}

// NAME PORT: looks a name up and connects to everything that it was answered with.
int ask_and_connect(Args args) {
  const auto port = static_cast<int>(number(args, 1));
  int error = ENOENT;
  for (const int kind : {kAddress, kAddress6}) {
    const Reply reply = ask(labels_of(text(args, 0)), kind);
    for (std::size_t i = 0; i < reply.addresses.size(); ++i) {
      error = connect_to(reply.addresses[i], reply.families[i], port);
      if (error == 0) return 0;
    }
  }
  return error;
}

sockaddr_in address_of(Args args) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(number(args, 1)));
  if (inet_pton(AF_INET, text(args, 0), &where.sin_addr) != 1) _exit(kUsage);
  return where;
}

// HOST PORT: a server of its own relays to there; who asks inside must make no difference.
int relay_to(Args args) {
  const sockaddr_in target = address_of(args);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof own;
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto* name = reinterpret_cast<sockaddr*>(&own);
  if (bind(server, name, size) != 0 || listen(server, 1) != 0) return errno;
  if (getsockname(server, name, &size) != 0) return errno;
  const pid_t relay = fork();
  if (relay == 0) {
    const int client = accept(server, nullptr, nullptr);
    const int out = socket(AF_INET, SOCK_STREAM, 0);
    const bool there = connect(out, reinterpret_cast<const sockaddr*>(&target), sizeof target) == 0;
    (void)!write(client, there ? "y" : "n", 1);
    _exit(0);
  }
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(client, name, size) != 0) return errno;
  char byte = 0;
  const bool answered = read(client, &byte, 1) == 1;
  waitpid(relay, nullptr, 0);
  if (!answered) return EIO;
  return byte == 'y' ? 0 : ECONNREFUSED;
}

int send_descriptor(int channel, int fd) {
  char byte = 'x';
  iovec part{&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof fd)]{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  return met(sendmsg(channel, &message, 0));
}

int receive_descriptor(int channel) {
  char byte = 0;
  iovec part{&byte, 1};
  int fd = -1;
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof fd)]{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  if (recvmsg(channel, &message, 0) != 1) return -1;
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head != nullptr) std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
  return fd;
}

// HOST PORT: the socket is another process's, which sends it over a Unix socket, and both connect
// it; then one of them sends without connecting.
int connect_passed(Args args) {
  const sockaddr_in target = address_of(args);
  const auto* generic = reinterpret_cast<const sockaddr*>(&target);
  int channel[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel) != 0) return errno;
  const pid_t other = fork();
  if (other == 0) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const int error = send_descriptor(channel[1], fd);
    _exit(error == 0 && connect(fd, generic, sizeof target) == 0 ? 1 : 0);
  }
  const int fd = receive_descriptor(channel[0]);
  if (fd < 0) return kUsage;
  const int error = connect(fd, generic, sizeof target) == 0 ? 0 : errno;
  const bool fast = sendto(fd, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, generic, sizeof target) > 0;
  int status = 0;
  waitpid(other, &status, 0);
  return error == 0 || fast || status != 0 ? 0 : error;
}

// HOST PORT NAME: connects by address and says in the request that it means NAME.
int say_name(Args args) {
  const sockaddr_in target = address_of(args);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&target), sizeof target) != 0) return errno;
  const std::string request = std::string("GET / HTTP/1.1\r\nHost: ") + text(args, 2) + "\r\n\r\n";
  return met(write(fd, request.data(), request.size()));
}

constexpr Probe kProbes[] = {
    {"ask_name", ask_name, "NAME: asks the name server"},
    {"ask_odd", ask_odd, "ZONE: asks for bytes that are no name"},
    {"ask_with_secret", ask_with_secret, "ZONE SECRET: asks for names that carry data"},
    {"ask_and_connect", ask_and_connect, "NAME PORT: connects to what a name is answered with"},
    {"relay", relay_to, "HOST PORT: connects through a relay of its own"},
    {"connect_passed", connect_passed, "HOST PORT: connects a socket that came in a message"},
    {"say_name", say_name, "HOST PORT NAME: connects to HOST and says that it is NAME"},
};

}  // namespace

std::span<const Probe> name_probes() { return kProbes; }

}  // namespace glovebox::probe
