// Connections through the broker, used as programs use them and as they should not be.
#include "probe.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

sockaddr_in address_at(Args args, std::size_t index) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(number(args, index + 1)));
  if (inet_pton(AF_INET, text(args, index), &where.sin_addr) != 1) _exit(kUsage);
  return where;
}

const sockaddr* generic(const sockaddr_in& where) {
  return reinterpret_cast<const sockaddr*>(&where);
}

int stream(int flags = 0) { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0); }

int socket_error(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

int exchange(int write_fd, int read_fd) {
  char byte = 'x';
  if (write(write_fd, &byte, 1) != 1 || read(read_fd, &byte, 1) != 1) return errno;
  return byte == 'x' ? 0 : EPROTO;
}

// EINPROGRESS, then writable, then no error, and a second connect says that it is there.
int connect_nonblocking(Args args) {
  const sockaddr_in where = address_at(args, 0);
  const int fd = stream(SOCK_NONBLOCK);
  if (connect(fd, generic(where), sizeof where) == 0 || errno != EINPROGRESS) return EPROTO;
  pollfd ready{fd, POLLOUT, 0};
  if (poll(&ready, 1, 3000) != 1) return ETIMEDOUT;
  if (const int error = socket_error(fd)) return error;
  const int again = connect(fd, generic(where), sizeof where) == 0 ? 0 : errno;
  if (again != 0 && again != EISCONN) return again;
  if (connect(fd, generic(where), sizeof where) == 0 || errno != EISCONN) return EPROTO;
  return 0;
}

// Netty, Asio and nginx put a socket into an epoll before they connect it.
int connect_in_epoll(Args args) {
  const sockaddr_in where = address_at(args, 0);
  const int fd = stream(SOCK_NONBLOCK);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLOUT | EPOLLET;
  event.data.u64 = 0x1234567890;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return errno;
  epoll_event seen{};
  while (epoll_wait(epoll, &seen, 1, 0) > 0) {
  }
  if (connect(fd, generic(where), sizeof where) != 0 && errno != EINPROGRESS) return errno;
  if (epoll_wait(epoll, &seen, 1, 3000) != 1) return ETIMEDOUT;
  if (seen.data.u64 != event.data.u64 || (seen.events & EPOLLOUT) == 0) return EPROTO;
  if (const int error = socket_error(fd)) return error;
  event.events = EPOLLIN;
  if (epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) != 0) return errno;
  if (write(fd, "x", 1) != 1) return errno;
  if (epoll_wait(epoll, &seen, 1, 3000) != 1 || (seen.events & EPOLLIN) == 0) return EPROTO;
  return epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nullptr) == 0 ? 0 : errno;
}

int connect_with_copy(Args args) {
  const sockaddr_in where = address_at(args, 0);
  const int fd = stream(SOCK_NONBLOCK);
  const int copy = dup(fd);
  if (connect(fd, generic(where), sizeof where) != 0 && errno != EINPROGRESS) return errno;
  pollfd ready{copy, POLLOUT, 0};
  if (poll(&ready, 1, 3000) != 1) return ETIMEDOUT;
  if (fcntl(fd, F_SETFL, 0) != 0) return errno;
  return exchange(copy, fd);
}

// The same for a socket that blocks, with a copy that closes on exec and one that does not.
int connect_with_blocking_copies(Args args) {
  const sockaddr_in where = address_at(args, 0);
  const int fd = stream();
  const int copy = dup(fd);
  const int closing = fcntl(fd, F_DUPFD_CLOEXEC, 50);
  if (connect(fd, generic(where), sizeof where) != 0) return errno;
  if ((fcntl(copy, F_GETFD) & FD_CLOEXEC) != 0) return EPROTO;
  if ((fcntl(closing, F_GETFD) & FD_CLOEXEC) == 0) return EPROTO;
  if (const int error = exchange(copy, fd)) return error;
  if (const int error = exchange(fd, closing)) return error;
  close(fd);
  return exchange(closing, copy);
}

// What a child has of a socket that its parent connects later is the old one: the broker cannot put
// another into its table.
int connect_after_fork(Args args) {
  const sockaddr_in where = address_at(args, 0);
  const int fd = stream();
  int go[2];
  int answer[2];
  if (pipe(go) != 0 || pipe(answer) != 0) return errno;
  if (fork() == 0) {
    char byte = 0;
    (void)!read(go[0], &byte, 1);
    const int error = send(fd, "x", 1, MSG_NOSIGNAL) == 1 ? 0 : errno;
    (void)!write(answer[1], &error, sizeof error);
    _exit(0);
  }
  if (connect(fd, generic(where), sizeof where) != 0) return errno;
  (void)!write(go[1], "x", 1);
  int error = -1;
  if (read(answer[0], &error, sizeof error) != sizeof error) return EIO;
  say("child %d", error);
  return exchange(fd, fd);
}

// Threads share the table: one connects, another speaks.
int connect_in_thread(Args args) {
  const sockaddr_in where = address_at(args, 0);
  const int fd = stream();
  int error = 0;
  std::thread([&] { error = connect(fd, generic(where), sizeof where) == 0 ? 0 : errno; }).join();
  return error != 0 ? error : exchange(fd, fd);
}

// An epoll that a blocking socket was put into before connect has lost it after.
int connect_blocking_in_epoll(Args args) {
  const sockaddr_in where = address_at(args, 0);
  const int fd = stream();
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLOUT;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return errno;
  if (connect(fd, generic(where), sizeof where) != 0) return errno;
  say("events %d", epoll_wait(epoll, &event, 1, 0));
  event.events = EPOLLOUT;
  say("again %d", epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno);
  return epoll_wait(epoll, &event, 1, 0) == 1 ? 0 : EPROTO;
}

// Options and flags that were set before stay.
int connect_keeps_options(Args args) {
  const sockaddr_in where = address_at(args, 0);
  const int fd = stream();
  const int on = 1;
  const int idle = 33;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  if (connect(fd, generic(where), sizeof where) != 0) return errno;
  int nodelay = 0, kept_idle = 0;
  socklen_t size = sizeof nodelay;
  getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, &size);
  getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kept_idle, &size);
  const bool same = nodelay == 1 && kept_idle == idle && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0 &&
                    (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0;
  return same ? exchange(fd, fd) : EPROTO;
}

// A blocking connect that gets no answer ends with the signal.
int connect_until_alarm(Args args) {
  const sockaddr_in where = address_at(args, 0);
  struct sigaction action{};
  action.sa_handler = [](int) {};
  sigaction(SIGALRM, &action, nullptr);
  const int fd = stream();
  alarm(1);
  return connect(fd, generic(where), sizeof where) == 0 ? 0 : errno;
}

// With SO_SNDTIMEO, which bounds a blocking connect.
int connect_until_timeout(Args args) {
  const sockaddr_in where = address_at(args, 0);
  const int fd = stream();
  const timeval wait{0, 300'000};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  return connect(fd, generic(where), sizeof where) == 0 ? 0 : errno;
}

// GRANTED PORT OTHER PORT COUNT: a second thread rewrites the address all the time.
int race_address(Args args) {
  const sockaddr_in granted = address_at(args, 0);
  const sockaddr_in other = address_at(args, 2);
  const long count = number(args, 4);
  alignas(sockaddr_in) static unsigned char shared[sizeof(sockaddr_in)];
  std::atomic<bool> over{false};
  std::thread writer([&] {
    auto* where = reinterpret_cast<volatile sockaddr_in*>(shared);
    while (!over) {
      where->sin_family = AF_INET;
      where->sin_port = granted.sin_port;
      where->sin_addr.s_addr = granted.sin_addr.s_addr;
      where->sin_port = other.sin_port;
      where->sin_addr.s_addr = other.sin_addr.s_addr;
    }
  });
  long through = 0;
  long reached = 0;
  for (long i = 0; i < count; ++i) {
    const int fd = stream();
    if (connect(fd, reinterpret_cast<const sockaddr*>(shared), sizeof(sockaddr_in)) == 0) {
      sockaddr_in peer{};
      socklen_t size = sizeof peer;
      getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size);
      if (peer.sin_addr.s_addr == other.sin_addr.s_addr && peer.sin_port == other.sin_port) {
        ++reached;
      }
      ++through;
    }
    close(fd);
  }
  over = true;
  writer.join();
  if (reached > 0) say("reached the other %ld times", reached);
  say("through %ld", through);
  return 0;
}

// GRANTED PORT OTHER PORT COUNT: waits for the moment in which a call on a Unix socket was looked
// at, and puts a TCP socket of the broker's, unconnected again, and another address in its place.
int race_descriptor(Args args) {
  const sockaddr_in granted = address_at(args, 0);
  const sockaddr_in other = address_at(args, 2);
  const long count = number(args, 4);
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  std::strcpy(local.sun_path, "/tmp/race");
  const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto* local_generic = reinterpret_cast<const sockaddr*>(&local);
  if (bind(server, local_generic, sizeof local) != 0 || listen(server, 4096) != 0) return errno;
  const int outside = stream(SOCK_NONBLOCK);
  (void)connect(outside, generic(granted), sizeof granted);
  shutdown(outside, SHUT_RDWR);  // of one that is under way: unconnected again
  static union {
    sockaddr_un local;
    sockaddr_in in;
  } shared;
  std::atomic<bool> over{false};
  const int victim = 100;
  std::thread writer([&] {
    while (!over) {
      const int plain = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      shared.local = local;
      dup2(plain, victim);
      close(plain);
      shared.in = other;
      dup2(outside, victim);
    }
  });
  for (long i = 0; i < count; ++i) {
    if (connect(victim, reinterpret_cast<const sockaddr*>(&shared), sizeof(sockaddr_in)) == 0) {
      sockaddr_in peer{};
      socklen_t size = sizeof peer;
      if (getpeername(victim, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
          peer.sin_family == AF_INET && peer.sin_port == other.sin_port) {
        say("reached the other");
      }
    }
  }
  over = true;
  writer.join();
  return 0;
}

// A socket of the broker's that is made unconnected must not lead anywhere else.
int disconnect(Args args) {
  const sockaddr_in granted = address_at(args, 0);
  const sockaddr_in other = address_at(args, 2);
  const int fd = stream();
  if (connect(fd, generic(granted), sizeof granted) != 0) return errno;
  sockaddr_in none{};
  none.sin_family = AF_UNSPEC;
  say("disconnect %d", connect(fd, generic(none), sizeof none) == 0 ? 0 : errno);
  say("other %d", connect(fd, generic(other), sizeof other) == 0 ? 0 : errno);
  say("fast open %d",
      sendto(fd, "x", 1, MSG_FASTOPEN, generic(other), sizeof other) == 1 ? 0 : errno);
  return 0;
}

// Tries to listen in the host's network with a socket of the broker's, and waits to be visited.
int listen_outside(Args args) {
  const sockaddr_in granted = address_at(args, 0);
  const int fd = stream(SOCK_NONBLOCK);
  (void)connect(fd, generic(granted), sizeof granted);
  shutdown(fd, SHUT_RDWR);
  const int error = listen(fd, 8) == 0 ? 0 : errno;
  sockaddr_in bound{};
  socklen_t size = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  say("listen %d port %d", error, ntohs(bound.sin_port));
  say("end of line");
  char byte = 0;
  if (read(0, &byte, 1) != 1) return EPROTO;
  if (error == 0 && accept(fd, nullptr, nullptr) >= 0) say("visited");  // it does not block
  return 0;
}

long milliseconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

// Connects as often as that, with a pause after each, and says how many got through, in what time,
// and the last error that others met.
void connect_and_count(const sockaddr_in& where, long count, long pause_ms) {
  const long start = milliseconds_now();
  long through = 0;
  int error = 0;
  for (long i = 0; i < count; ++i) {
    const int fd = stream();
    if (connect(fd, generic(where), sizeof where) == 0) {
      ++through;
    } else {
      error = errno;
    }
    close(fd);
    if (pause_ms > 0) usleep(static_cast<useconds_t>(pause_ms) * 1000);
  }
  say("through %ld in %ld ms, error %d", through, milliseconds_now() - start, error);
}

// HOST PORT COUNT [HOST PORT COUNT]...: one place after the other.
int connect_often(Args args) {
  for (std::size_t i = 0; i + 2 < args.size(); i += 3) {
    connect_and_count(address_at(args, i), number(args, i + 2), 0);
  }
  return 0;
}

// HOST PORT COUNT MS: the same with a pause after each.
int connect_at_pace(Args args) {
  connect_and_count(address_at(args, 0), number(args, 2), number(args, 3));
  return 0;
}

// HOST PORT COUNT: keeps that many open at once.
int connect_many(Args args) {
  const sockaddr_in where = address_at(args, 0);
  long through = 0;
  for (long i = 0; i < number(args, 2); ++i) {
    if (connect(stream(), generic(where), sizeof where) == 0) ++through;
  }
  say("through %ld", through);
  return 0;
}

// HOST PORT MEGABYTES [hidden]: sends until an error, or so much; as a process that lets no other
// look at it.
int send_much(Args args) {
  const sockaddr_in where = address_at(args, 0);
  const int fd = stream();
  if (connect(fd, generic(where), sizeof where) != 0) return errno;
  if (args.size() > 3 && prctl(PR_SET_DUMPABLE, 0) != 0) return errno;
  signal(SIGPIPE, SIG_IGN);
  static char block[1 << 16];
  for (long i = 0; i < number(args, 2) * 16; ++i) {
    if (send(fd, block, sizeof block, 0) < 0) return errno;
    while (recv(fd, block, sizeof block, MSG_DONTWAIT) > 0) {
    }
    usleep(2000);
  }
  return 0;
}

// HOST PORT: sends a file by a call that goes on when its number is closed: no table has the
// socket.
int send_without_number(Args args) {
  const sockaddr_in where = address_at(args, 0);
  signal(SIGPIPE, SIG_IGN);
  const int fd = stream();
  if (connect(fd, generic(where), sizeof where) != 0) return errno;
  const int file = open("/tmp/much", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, 1L << 31) != 0) return errno;
  long sent = 0;
  std::thread sender([&] { sent = sendfile(fd, file, nullptr, 1UL << 31); });
  for (int queued = 0; queued == 0;) {
    if (ioctl(fd, TIOCOUTQ, &queued) != 0) return errno;
  }
  close(fd);
  sender.join();
  say("sent %ld", sent);
  return 0;
}

// HOST PORT COUNT [blocking]: connects what has so many copies.
int connect_with_many_copies(Args args) {
  const sockaddr_in where = address_at(args, 0);
  const int fd = stream(args.size() > 3 ? 0 : SOCK_NONBLOCK);
  for (long i = 0; i < number(args, 2); ++i) {
    if (dup(fd) < 0) return errno;
  }
  if (connect(fd, generic(where), sizeof where) != 0 && errno != EINPROGRESS) return errno;
  return 0;
}

constexpr Probe kProbes[] = {
    {"send_without_number", send_without_number, "HOST PORT: sends what no descriptor leads to"},
    {"connect_with_many_copies", connect_with_many_copies, "HOST PORT COUNT [blocking]: copies"},
    {"connect_nonblocking", connect_nonblocking, "HOST PORT: connects without blocking"},
    {"connect_in_epoll", connect_in_epoll, "HOST PORT: connects what an epoll watches (echo)"},
    {"connect_with_copy", connect_with_copy, "HOST PORT: connects what has a copy (echo)"},
    {"connect_with_blocking_copies", connect_with_blocking_copies, "HOST PORT: the same, blocking"},
    {"connect_after_fork", connect_after_fork, "HOST PORT: connects what a child has too (echo)"},
    {"connect_in_thread", connect_in_thread, "HOST PORT: connects in another thread (echo)"},
    {"connect_blocking_in_epoll", connect_blocking_in_epoll, "HOST PORT: an epoll, blocking"},
    {"connect_keeps_options", connect_keeps_options, "HOST PORT: options set before stay (echo)"},
    {"connect_until_alarm", connect_until_alarm, "HOST PORT: a signal ends a connect"},
    {"connect_until_timeout", connect_until_timeout, "HOST PORT: SO_SNDTIMEO ends a connect"},
    {"race_address", race_address, "HOST PORT OTHER PORT COUNT: rewrites the address meanwhile"},
    {"race_descriptor", race_descriptor, "HOST PORT OTHER PORT COUNT: swaps the socket meanwhile"},
    {"disconnect", disconnect, "HOST PORT OTHER PORT: goes elsewhere with a granted socket"},
    {"listen_outside", listen_outside, "HOST PORT: listens with a granted socket"},
    {"connect_often", connect_often, "HOST PORT COUNT...: connects and closes"},
    {"connect_at_pace", connect_at_pace, "HOST PORT COUNT MS: the same, with pauses"},
    {"connect_many", connect_many, "HOST PORT COUNT: keeps connections open"},
    {"send_much", send_much, "HOST PORT MEGABYTES [hidden]: sends"},
};

}  // namespace

std::span<const Probe> egress_probes() { return kProbes; }

}  // namespace glovebox::probe
