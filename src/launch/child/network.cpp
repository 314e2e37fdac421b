// The box's network namespace is made beside everything else: it takes the kernel as long as all
// the mounts together. A thread makes it and ends; the box's first process then goes in.
//
// The thread shares the memory, so also the errno, of the process that goes on meanwhile: it calls
// the kernel without touching errno. It ends before any untrusted code starts (enter_network waits
// for it), and has no more rights than the process has at that time.

#include "launch/child/context.h"
#include "launch/child/sys.h"

#include <linux/futex.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace glovebox::launch {
namespace {

// A system call that returns -errno and leaves errno alone.
long raw(long number, long a = 0, long b = 0, long c = 0, long d = 0) noexcept {
#if defined(__x86_64__)
  long result = number;
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  return x0;
#endif
}

long address(const void* pointer) noexcept { return reinterpret_cast<long>(pointer); }

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

int make_network(void* argument) noexcept {
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
  raw(SYS_exit, 0);
  return 0;
}

}  // namespace

bool raise_loopback() noexcept {
  const long result = raise_quietly();
  if (result < 0) errno = static_cast<int>(-result);
  return result >= 0;
}

bool begin_network(ChildContext& context, std::uint64_t loopback) noexcept {
  if (context.network_is_given) return true;
  NetworkHelper& helper = *context.network;
  helper.loopback = loopback != 0 ? 1 : 0;
  helper.thread_id = 1;
  constexpr int kThread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                          CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
  helper.running = ::clone(make_network, helper.stack + sizeof(helper.stack), kThread, &helper,
                           nullptr, nullptr, &helper.thread_id) > 0;
  return helper.running;
}

bool enter_network(ChildContext& context) noexcept {
  if (context.network_is_given) return true;
  NetworkHelper& helper = *context.network;
  if (!helper.running) {
    errno = EINVAL;
    return false;
  }
  while (const std::uint32_t id = __atomic_load_n(&helper.thread_id, __ATOMIC_ACQUIRE)) {
    raw(SYS_futex, address(&helper.thread_id), FUTEX_WAIT, static_cast<long>(id), 0);
  }
  if (helper.fd < 0) {
    errno = helper.error;
    return false;
  }
  const bool done = ::setns(helper.fd, CLONE_NEWNET) == 0;
  sys::close_quietly(helper.fd);
  return done;
}

}  // namespace glovebox::launch
