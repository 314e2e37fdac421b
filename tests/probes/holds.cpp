// Ways to have the broker wait in a call: it works on the same open files as the box. Each ends
// with calls that the broker has to answer, so one that waits for good keeps the probe for good.
#include "probe.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

template <class Address>
const sockaddr* generic(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

sockaddr_un unix_at(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) _exit(kUsage);
  std::strcpy(address.sun_path, path);
  return address;
}

int unix_socket(int flags = 0) { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0); }
int stream(int flags = 0) { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0); }

// Listens, with a queue that has no room left.
int full_listener(const sockaddr_un& where) {
  const int server = unix_socket();
  if (bind(server, generic(where), sizeof where) != 0 || listen(server, 0) != 0) return -1;
  while (connect(unix_socket(SOCK_NONBLOCK), generic(where), sizeof where) == 0) {
  }
  return errno == EAGAIN ? server : -1;
}

// PATH SECONDS: connects to a queue that is full, with a socket that a second thread makes block
// over and over. The broker tries again all the time, and each time is a race.
int hold_by_unix(Args args) {
  const sockaddr_un where = unix_at(text(args, 0));
  if (full_listener(where) < 0) return errno;
  static std::atomic<bool> over{false};
  const int victim = unix_socket();
  std::thread([=] {
    while (!over) (void)fcntl(victim, F_SETFL, 0);
  }).detach();
  std::thread([=] { (void)connect(victim, generic(where), sizeof where); }).detach();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(number(args, 1));
  while (std::chrono::steady_clock::now() < end) {
    const int fd = unix_socket(SOCK_NONBLOCK);
    if (connect(fd, generic(where), sizeof where) == 0 || errno != EAGAIN) return EBADE;
    close(fd);
    poll(nullptr, 0, 1);  // leaves the processors to the race
  }
  say("answered");
  _exit(0);
}

sockaddr_in loopback() {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return where;
}

int listen_at(sockaddr_in& where, int backlog) {
  const int server = stream();
  const int small = 2048;
  setsockopt(server, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  socklen_t size = sizeof where;
  if (bind(server, generic(where), sizeof where) != 0 || listen(server, backlog) != 0 ||
      getsockname(server, reinterpret_cast<sockaddr*>(&where), &size) != 0) {
    return -1;
  }
  return server;
}

// Until one waits for its answer.
void fill_queue(const sockaddr_in& where) {
  constexpr int kMost = 16;
  constexpr int kEnoughMs = 100;
  for (int i = 0; i < kMost; ++i) {
    const int fd = stream(SOCK_NONBLOCK);
    (void)connect(fd, generic(where), sizeof where);
    pollfd ready{fd, POLLOUT, 0};
    if (poll(&ready, 1, kEnoughMs) == 0) return;
  }
}

// A connect waits in the broker, for a queue that is full. It is ended, after the socket was made
// to block: the broker would begin another, and wait for that.
int hold_by_tcp(Args /*args*/) {
  sockaddr_in where = loopback();
  if (listen_at(where, 0) < 0) return errno;
  fill_queue(where);
  const int victim = stream();
  std::atomic<bool> ended{false};
  std::thread blocked([&] {
    (void)connect(victim, generic(where), sizeof where);
    ended = true;
  });
  // The broker has made it one that does not block when it waits.
  while (!ended && (fcntl(victim, F_GETFL) & O_NONBLOCK) == 0) {
  }
  (void)fcntl(victim, F_SETFL, 0);
  sockaddr_in none{};
  none.sin_family = AF_UNSPEC;
  (void)connect(victim, generic(none), sizeof none);
  blocked.join();
  const int fd = stream(SOCK_NONBLOCK);
  if (connect(fd, generic(where), sizeof where) != 0 && errno != EINPROGRESS) return errno;
  say("answered");
  return 0;
}

// HOST PORT: what the broker puts the granted connection in the place of is a connection already,
// to a peer that reads nothing, and lingers.
int hold_by_linger(Args args) {
  sockaddr_in outside{};
  outside.sin_family = AF_INET;
  outside.sin_port = htons(static_cast<std::uint16_t>(number(args, 1)));
  if (inet_pton(AF_INET, text(args, 0), &outside.sin_addr) != 1) return kUsage;
  sockaddr_in where = loopback();
  const int server = listen_at(where, 4);
  const int fd = stream();
  if (server < 0 || connect(fd, generic(where), sizeof where) != 0) return errno;
  const int peer = accept4(server, nullptr, nullptr, SOCK_CLOEXEC);
  if (peer < 0) return errno;
  static char bytes[1 << 16];
  while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
  const linger for_long{1, 10'000};
  if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &for_long, sizeof for_long) != 0) return errno;
  if (connect(fd, generic(outside), sizeof outside) != 0) return errno;
  say("answered");
  return 0;
}

// A chain of links, each as long as one can be: what costs most to look up.
std::string make_long_way(const std::string& directory, const std::string& end) {
  constexpr int kLinks = 38;
  constexpr std::size_t kLength = 4080;
  mkdir((directory + "/a").c_str(), 0700);
  for (int i = 0; i < kLinks; ++i) {
    std::string target = directory + "/";
    while (target.size() < kLength) target += "a/../";
    target += i + 1 < kLinks ? "way" + std::to_string(i + 1) : end;
    if (symlink(target.c_str(), (directory + "/way" + std::to_string(i)).c_str()) != 0) return {};
  }
  return directory + "/way0";
}

// DIRECTORY COUNT: so many connects wait for a queue that is full, by a name that is long to look
// up, until the input ends.
int wait_by_a_long_way(Args args) {
  const std::string directory = text(args, 0);
  if (full_listener(unix_at((directory + "/full").c_str())) < 0) return errno;
  const std::string way = make_long_way(directory, "full");
  if (way.empty()) return errno;
  const sockaddr_un where = unix_at(way.c_str());
  for (long i = 0; i < number(args, 1); ++i) {
    std::thread([=] { (void)connect(unix_socket(), generic(where), sizeof where); }).detach();
  }
  say("waiting");
  char byte = 0;
  (void)!read(STDIN_FILENO, &byte, 1);
  _exit(0);
}

// PATH: a connect that waits for room is over after SO_SNDTIMEO.
int wait_for_room(Args args) {
  const sockaddr_un where = unix_at(text(args, 0));
  if (full_listener(where) < 0) return errno;
  const int fd = unix_socket();
  const timeval patience{0, 200'000};
  if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0) return errno;
  return met(connect(fd, generic(where), sizeof where));
}

constexpr Probe kProbes[] = {
    {"hold_by_unix", hold_by_unix, "PATH SECONDS: makes a socket block while it is connected"},
    {"hold_by_tcp", hold_by_tcp, "ends a connect that waits, and makes the socket block"},
    {"hold_by_linger", hold_by_linger, "HOST PORT: leaves a connection that lingers"},
    {"wait_by_a_long_way", wait_by_a_long_way, "DIRECTORY COUNT: connects wait, by a long name"},
    {"wait_for_room", wait_for_room, "PATH: SO_SNDTIMEO ends a wait for room"},
};

}  // namespace

std::span<const Probe> hold_probes() { return kProbes; }

}  // namespace glovebox::probe
