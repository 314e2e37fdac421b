// The box's network namespace is made beside everything else: it takes the kernel as long as all
// the mounts together. A helper makes it and ends; the box's first process then goes in.

#include "launch/child/context.h"
#include "launch/child/read_back.h"
#include "launch/child/sys.h"

#include <linux/if.h>
#include <linux/in.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace glovebox::launch {
namespace {

using sys::address;
using sys::raw;

ifreq loopback_up() noexcept {
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return request;
}

long raise_quietly() noexcept {
  const long fd = raw(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fd;
  const ifreq request = loopback_up();
  const long result = raw(SYS_ioctl, fd, SIOCSIFFLAGS, address(&request));
  raw(SYS_close, fd);
  return result;
}

// 127.0.0.1 port 53: what programs ask that find no resolv.conf, too.
long bound_socket(int type) noexcept {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = __builtin_bswap16(53);
  where.sin_addr.s_addr = __builtin_bswap32(INADDR_LOOPBACK);
  const long fd = raw(SYS_socket, AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return fd;
  long result = raw(SYS_bind, fd, address(&where), sizeof(where));
  constexpr int kBacklog = 64;
  if (result == 0 && type == SOCK_STREAM) result = raw(SYS_listen, fd, kBacklog);
  if (result == 0) return fd;
  raw(SYS_close, fd);
  return result;
}

void make_network(void* argument) noexcept {
  auto* helper = static_cast<NetworkHelper*>(argument);
  long result = raw(SYS_unshare, CLONE_NEWNET);
  if (result == 0 && helper->loopback != 0) result = raise_quietly();
  if (result == 0) {
    result = raw(SYS_openat, AT_FDCWD, address("/proc/thread-self/ns/net"), O_RDONLY | O_CLOEXEC);
  }
  if (result >= 0) {
    helper->fd = static_cast<int>(result);
  } else {
    helper->error = static_cast<int>(-result);
  }
}

// That another one than the launcher's was entered is not enough: a launcher that serves many boxes
// may itself stand in a namespace that it made, and boxes that stayed there would share it.
bool is_in_network(int fd) noexcept {
  struct stat wanted{};
  if (::fstat(fd, &wanted) != 0) return false;
  return (wanted.st_ino != 0 && namespace_inode("net") == wanted.st_ino) || not_in_force();
}

}  // namespace

bool raise_loopback() noexcept {
  const long result = raise_quietly();
  if (result < 0) errno = static_cast<int>(-result);
  return result >= 0;
}

bool open_resolver_sockets(int (&fds)[kResolverFds]) noexcept {
  constexpr int kTypes[kResolverFds] = {SOCK_DGRAM, SOCK_STREAM};
  for (std::size_t i = 0; i < kResolverFds; ++i) {
    const long fd = bound_socket(kTypes[i]);
    if (fd < 0) {
      errno = static_cast<int>(-fd);
      return false;
    }
    fds[i] = static_cast<int>(fd);
  }
  return true;
}

// Port 53 needs power over the network namespace: the box's first process has it over one that it
// made, and a given one came with the sockets.
bool open_resolver(ChildContext& context) noexcept {
  context.has_resolver = true;
  if (context.network_is_given) {
    if (context.resolver_fds[0] >= 0 && context.resolver_fds[1] >= 0) return true;
    errno = EBADF;
    return false;
  }
  return open_resolver_sockets(context.resolver_fds);
}

bool begin_network(ChildContext& context, std::uint64_t loopback) noexcept {
  if (context.network_is_given) return true;
  NetworkHelper& helper = *context.network;
  helper.loopback = loopback != 0 ? 1 : 0;
  return start_helper(helper, make_network);
}

bool enter_network(ChildContext& context) noexcept {
  if (context.network_is_given) return true;
  NetworkHelper& helper = *context.network;
  if (!await_helper(helper)) return false;
  const bool done = ::setns(helper.fd, CLONE_NEWNET) == 0 && is_in_network(helper.fd);
  sys::close_quietly(helper.fd);
  return done;
}

}  // namespace glovebox::launch
