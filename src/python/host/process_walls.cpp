#include "python/host/process_walls.h"

#include "python/python_protocol.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <vector>

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::pyhost {
namespace {

constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr std::uint32_t kNoDescriptor = SECCOMP_RET_ERRNO | EBADF;
constexpr std::uint32_t kMissing = SECCOMP_RET_ERRNO | ENOSYS;

constexpr sock_filter load(std::uint32_t offset) {
  return {BPF_LD | BPF_W | BPF_ABS, 0, 0, offset};
}
constexpr sock_filter equal(std::uint32_t value, std::uint8_t yes, std::uint8_t no) {
  return {BPF_JMP | BPF_JEQ | BPF_K, yes, no, value};
}
constexpr sock_filter answer(std::uint32_t value) { return {BPF_RET | BPF_K, 0, 0, value}; }

void on_cpu_end(int /*signal*/) { ::_exit(python::kCpuEndStatus); }

// Private writable memory of this process, by the kernel's count.
std::uint64_t data_bytes() {
  unsigned long long pages[6] = {};
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return std::uint64_t{16} << 20;
  for (unsigned long long& each : pages) {
    if (std::fscanf(file, "%llu", &each) != 1) break;
  }
  (void)std::fclose(file);  // it was only read
  return pages[5] * static_cast<unsigned long long>(::sysconf(_SC_PAGESIZE));
}

int on_failure() { return errno == 0 ? EINVAL : errno; }

}  // namespace

int forbid_processes() {
  // Another architecture than the box's own does not get here: the box's filter refuses it.
  const std::array filter = {
      load(offsetof(seccomp_data, nr)),
      equal(__NR_execve, 6, 0),
      equal(__NR_execveat, 5, 0),
#ifdef __NR_fork
      equal(__NR_fork, 4, 0),
      equal(__NR_vfork, 3, 0),
#else
      equal(__NR_execve, 4, 0),
      equal(__NR_execve, 3, 0),
#endif
      equal(__NR_clone3, 3, 0),
      equal(__NR_clone, 3, 0),
      answer(kAllow),
      answer(kRefuse),
      answer(kMissing),
      load(offsetof(seccomp_data, args)),
      sock_filter{BPF_JMP | BPF_JSET | BPF_K, 0, 1, CLONE_THREAD},
      answer(kAllow),
      answer(kRefuse),
  };
  std::array<sock_filter, filter.size()> copy = filter;
  const sock_fprog program{static_cast<unsigned short>(copy.size()), copy.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return on_failure();
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    return on_failure();
  }
  return 0;
}

int forbid_descriptors(int first) {
  // With a descriptor as their first argument, or one as each of the first two.
  constexpr std::array kOne = {
      __NR_read,   __NR_write,   __NR_readv,    __NR_writev,   __NR_pread64, __NR_pwrite64,
      __NR_preadv, __NR_pwritev, __NR_preadv2,  __NR_pwritev2, __NR_close,   __NR_dup,
      __NR_fcntl,  __NR_ioctl,   __NR_vmsplice, __NR_fchmod,   __NR_fchown};
  constexpr std::array kTwo = {
#ifdef __NR_dup2
      __NR_dup2,
#endif
      __NR_dup3};
  // Other ways to descriptors: a cell has no use for any.
  constexpr std::array kNever = {__NR_sendfile,        __NR_splice,      __NR_tee,
                                 __NR_copy_file_range, __NR_close_range, __NR_pidfd_getfd,
                                 __NR_io_uring_setup,  __NR_io_submit};
  constexpr std::size_t kCalls = kOne.size() + kTwo.size() + kNever.size();
  // Behind the list of calls, in this order.
  constexpr std::size_t kLookAtSecond = kCalls + 2;
  constexpr std::size_t kLookAtFirst = kLookAtSecond + 3;
  constexpr std::size_t kRefused = kLookAtFirst + 4;
  std::vector<sock_filter> filter{load(offsetof(seccomp_data, nr))};
  const auto jump = [&](std::uint32_t value, std::size_t to) {
    filter.push_back(equal(value, static_cast<std::uint8_t>(to - filter.size() - 1), 0));
  };
  const auto look = [&](std::size_t argument) {
    filter.push_back(load(static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8 * argument)));
    jump(static_cast<std::uint32_t>(first), kRefused);
    jump(static_cast<std::uint32_t>(first) + 1, kRefused);
  };
  for (const int call : kNever) jump(static_cast<std::uint32_t>(call), kRefused);
  for (const int call : kTwo) jump(static_cast<std::uint32_t>(call), kLookAtSecond);
  for (const int call : kOne) jump(static_cast<std::uint32_t>(call), kLookAtFirst);
  filter.push_back(answer(kAllow));
  look(1);
  look(0);
  filter.push_back(answer(kAllow));
  filter.push_back(answer(kNoDescriptor));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0 ? 0 : on_failure();
}

int separate_thread(StandardStreams streams) {
  if (::unshare(CLONE_FILES | CLONE_FS) != 0) return on_failure();
  if (::syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) != 0) return on_failure();
  if (streams == StandardStreams::Shared) return 0;
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return on_failure();
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::dup2(null, standard) < 0) return on_failure();
  }
  ::close(null);
  return 0;
}

int hide_from_proc(int first) {
  // A process may always follow the names of its own descriptors, and then it is the pipe that is
  // asked. One that belongs to another user refuses already.
  for (const int pipe : {first, first + 1}) {
    if (::fchmod(pipe, 0) != 0 && errno != EPERM) return on_failure();
  }
  return ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : on_failure();
}

int limit_cpu(std::uint64_t ms) {
  timespec used{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0) return on_failure();
  const auto whole = static_cast<rlim_t>(used.tv_sec) + ms / 1000 + 2;
  const rlimit limit{whole, whole};
  if (::setrlimit(RLIMIT_CPU, &limit) != 0) return on_failure();
  struct sigaction action{};
  action.sa_handler = on_cpu_end;
  const int signal = SIGRTMIN + 3;
  if (::sigaction(signal, &action, nullptr) != 0) return on_failure();
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = signal;
  timer_t timer{};
  if (::timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) != 0) return on_failure();
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(ms / 1000);
  when.it_value.tv_nsec = static_cast<long>(ms % 1000) * 1'000'000;
  if (::timer_settime(timer, 0, &when, nullptr) != 0) return on_failure();
  return 0;
}

int limit_memory(std::uint64_t bytes) {
  // Below what the box may use in all, so that the interpreter hears of it before the kernel kills.
  const std::uint64_t reserve = std::min<std::uint64_t>(bytes / 8, std::uint64_t{8} << 20);
  const std::uint64_t most = std::max(bytes - reserve, data_bytes() + (std::uint64_t{2} << 20));
  const rlimit limit{most, most};
  return ::setrlimit(RLIMIT_DATA, &limit) == 0 ? 0 : on_failure();
}

}  // namespace glovebox::pyhost
