// The second and third doors of an x86-64 kernel: the i386 entry (int 0x80) and the x32 numbers. A
// filter that looks at numbers and not at the architecture reads them as other calls.
#include "probe.h"

#include <cerrno>

#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

#if defined(__x86_64__)

// System call `number` with up to three arguments through int 0x80; pointers must lie below 4 GiB.
long int80(long number, long first, long second, long third) {
  long result = 0;
  asm volatile("int $0x80"
               : "=a"(result)
               : "a"(number), "b"(first), "c"(second), "d"(third)
               : "memory", "r8", "r9", "r10", "r11");
  return static_cast<int>(result);
}

int met_raw(long result) { return result < 0 && result > -4096 ? static_cast<int>(-result) : 0; }

constexpr long kI386Getpid = 20;
constexpr long kI386Ptrace = 26;
constexpr long kI386Socket = 359;
constexpr long kX32Bit = 0x40000000;

int try_int80_getpid(Args) { return met_raw(int80(kI386Getpid, 0, 0, 0)); }
// AF_NETLINK by the i386 number of socket(2); on x86-64 the same number is not in use.
int try_int80_socket(Args) { return met_raw(int80(kI386Socket, 16, 3, 0)); }
// Number 26 is msync on x86-64 and ptrace on i386: the classic confusion. PTRACE_TRACEME.
int try_int80_ptrace(Args) { return met_raw(int80(kI386Ptrace, 0, 0, 0)); }

int try_x32_getpid(Args) { return met(syscall(SYS_getpid | kX32Bit)); }
int try_x32(Args args) { return met(syscall(number(args, 0) | kX32Bit, 0, 0, 0, 0, 0, 0)); }

constexpr Probe kProbes[] = {
    {"int80_getpid", try_int80_getpid, "getpid through the i386 entry"},
    {"int80_socket", try_int80_socket, "a netlink socket through the i386 entry"},
    {"int80_ptrace", try_int80_ptrace, "ptrace through the i386 entry"},
    {"x32_getpid", try_x32_getpid, "getpid with the x32 bit"},
    {"x32", try_x32, "NR: any call with the x32 bit"},
};

}  // namespace

std::span<const Probe> architecture_probes() { return kProbes; }

#else
}  // namespace

std::span<const Probe> architecture_probes() { return {}; }

#endif

}  // namespace glovebox::probe
