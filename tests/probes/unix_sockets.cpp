// Unix sockets: those of the host, by every kind of name, and the box's own.
#include "probe.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

int socket_type(const char* name) {
  if (std::strcmp(name, "dgram") == 0) return SOCK_DGRAM;
  return std::strcmp(name, "seqpacket") == 0 ? SOCK_SEQPACKET : SOCK_STREAM;
}

// False: the name is too long.
bool fill(sockaddr_un& address, const std::string& path) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return true;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

int connect_to(const std::string& path, int type) {
  sockaddr_un address{};
  if (!fill(address, path)) return ENAMETOOLONG;
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int error = met(connect(fd, generic(address), sizeof address));
  close(fd);
  return error;
}

int try_connect(Args args) {
  return connect_to(text(args, 0), socket_type(text_or(args, 1, "stream")));
}

int try_connect_abstract(Args args) {
  const std::string name = text(args, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) return ENAMETOOLONG;
  std::memcpy(address.sun_path + 1, name.c_str(), name.size());
  const int fd = socket(AF_UNIX, socket_type(text_or(args, 1, "stream")) | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return met(connect(fd, generic(address), length));
}

int try_connect_relative(Args args) {
  if (chdir(text(args, 0)) != 0) return errno;
  return connect_to(text(args, 1), SOCK_STREAM);
}

// By a descriptor of the socket's file, and by one of its directory.
int try_connect_by_fd(Args args) {
  const std::string path = text(args, 0);
  const int file = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (file < 0) return errno;
  const int error = connect_to("/proc/self/fd/" + std::to_string(file), SOCK_STREAM);
  if (error == 0) return 0;
  const std::size_t slash = path.rfind('/');
  const int directory = open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return errno;
  return connect_to("/proc/self/fd/" + std::to_string(directory) + path.substr(slash), SOCK_STREAM);
}

// A datagram to PATH, by each call that takes an address.
int try_send(Args args) {
  sockaddr_un address{};
  if (!fill(address, text(args, 0))) return ENAMETOOLONG;
  int ends[2];
  const bool pair = std::strcmp(text_or(args, 1, "socket"), "pair") == 0;
  const int made = pair ? socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends)
                        : ends[0] = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  if (made < 0) return errno;
  if (sendto(ends[0], "x", 1, 0, generic(address), sizeof address) == 1) return 0;
  char byte = 'x';
  iovec part{&byte, 1};
  mmsghdr message{};
  message.msg_hdr.msg_name = &address;
  message.msg_hdr.msg_namelen = sizeof address;
  message.msg_hdr.msg_iov = &part;
  message.msg_hdr.msg_iovlen = 1;
  if (sendmsg(ends[0], &message.msg_hdr, MSG_NOSIGNAL) == 1) return 0;
  return sendmmsg(ends[0], &message, 1, MSG_NOSIGNAL) == 1 ? 0 : errno;
}

// EBADE when the other end is told to be another user.
int check_peer(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return errno;
  if (peer.uid == getuid() && peer.gid == getgid()) return 0;
  say("the peer is %u:%u, not %u:%u", peer.uid, peer.gid, getuid(), getgid());
  return EBADE;
}

int talk(int client, int server) {
  const int accepted = accept4(server, nullptr, nullptr, SOCK_CLOEXEC);
  char byte = 'x';
  if (accepted < 0 || write(client, &byte, 1) != 1 || read(accepted, &byte, 1) != 1) return errno;
  const int error = check_peer(client);
  return error != 0 ? error : check_peer(accepted);
}

// A named socket of its own, a connection to it by the same or by another name, and one byte.
int try_pair(Args args) {
  const int type = socket_type(text_or(args, 1, "stream"));
  sockaddr_un address{};
  if (!fill(address, text(args, 0))) return ENAMETOOLONG;
  const int server = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  if (server < 0) return errno;
  if (bind(server, generic(address), sizeof address) != 0 || listen(server, 1) != 0) return errno;
  sockaddr_un told{};
  socklen_t size = sizeof told;
  if (getsockname(server, reinterpret_cast<sockaddr*>(&told), &size) != 0) return errno;
  if (std::strcmp(told.sun_path, address.sun_path) != 0) return EBADE;
  if (!fill(address, text_or(args, 2, text(args, 0)))) return ENAMETOOLONG;
  const int client = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  if (connect(client, generic(address), sizeof address) != 0) return errno;
  return talk(client, server);
}

// A second thread rewrites the path all the time: to that of a socket of its own, and to another.
int race_path(Args args) {
  sockaddr_un own{}, other{};
  if (!fill(own, text(args, 0)) || !fill(other, text(args, 1))) return ENAMETOOLONG;
  const long count = number(args, 2);
  const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (server < 0) return errno;
  if (bind(server, generic(own), sizeof own) != 0 || listen(server, 4096) != 0) return errno;
  static sockaddr_un shared;
  shared = own;
  std::atomic<bool> over{false};
  std::thread writer([&] {
    auto* where = reinterpret_cast<volatile char*>(&shared);
    while (!over) {
      for (const sockaddr_un* each : {&other, &own}) {
        const auto* bytes = reinterpret_cast<const char*>(each);
        for (std::size_t i = 0; i < sizeof shared; ++i) where[i] = bytes[i];
      }
    }
  });
  long through = 0, accepted = 0;
  for (long i = 0; i < count; ++i) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connect(fd, generic(shared), sizeof shared) == 0) ++through;
    const int taken = accept4(server, nullptr, nullptr, SOCK_CLOEXEC);
    if (taken >= 0) ++accepted;
    close(taken);
    close(fd);
  }
  over = true;
  writer.join();
  say("through %ld, accepted %ld", through, accepted);
  return through == accepted && through > 0 ? 0 : EBADE;
}

// A second thread puts a TCP socket and a Unix socket at one number in turn, and the address with
// them.
int race_kind(Args args) {
  sockaddr_un other{};
  if (!fill(other, text(args, 0))) return ENAMETOOLONG;
  const long count = number(args, 1);
  static sockaddr_un shared;
  std::atomic<bool> over{false};
  const int victim = 100;
  std::thread writer([&] {
    while (!over) {
      const int tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      shared.sun_family = AF_INET;
      dup2(tcp, victim);
      close(tcp);
      const int unix = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      dup2(unix, victim);
      close(unix);
      shared = other;
    }
  });
  long through = 0;
  for (long i = 0; i < count; ++i) {
    if (connect(victim, generic(shared), sizeof shared) == 0) ++through;
  }
  over = true;
  writer.join();
  say("through %ld", through);
  return through == 0 ? 0 : EBADE;
}

constexpr Probe kProbes[] = {
    {"connect_unix", try_connect, "PATH [dgram|seqpacket]: connects to a socket by path"},
    {"connect_abstract", try_connect_abstract, "NAME [dgram]: connects to an abstract socket"},
    {"connect_unix_from", try_connect_relative, "DIRECTORY PATH: connects from there"},
    {"connect_unix_by_fd", try_connect_by_fd, "PATH: connects by descriptors in /proc"},
    {"send_unix", try_send, "PATH [pair]: sends a datagram to a socket by path"},
    {"unix_pair", try_pair, "PATH [seqpacket [NAME]]: listens at PATH and connects to it"},
    {"race_unix", race_path, "OWN OTHER COUNT: rewrites the path meanwhile"},
    {"race_unix_kind", race_kind, "OTHER COUNT: swaps the kind of socket meanwhile"},
};

}  // namespace

std::span<const Probe> unix_probes() { return kProbes; }

}  // namespace glovebox::probe
