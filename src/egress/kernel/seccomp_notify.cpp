#include "egress/kernel/seccomp_notify.h"

#include "base/file.h"
#include "base/pidfd.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

namespace glovebox::egress {
namespace {

// Newer than Debian's headers: the thread that is answered runs next, on the same processor.
constexpr unsigned long kSetFlags = SECCOMP_IOW(4, __u64);
constexpr std::uint64_t kSyncWakeUp = 1;

// Of an installation, each as long as the broker lets a call wait (interrupter.h): a second in all.
constexpr int kMostWaits = 66;

constexpr unsigned kPidfdThread = O_EXCL;  // PIDFD_THREAD

// The kernel writes as much as its own struct holds.
struct alignas(8) Buffer {
  std::array<std::byte, 512> bytes{};
};

bool fits() {
  seccomp_notif_sizes sizes{};
  if (::syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0) return false;
  return sizes.seccomp_notif <= sizeof(Buffer) && sizes.seccomp_notif_resp <= sizeof(Buffer);
}

// The kernel's lock of a listener is held for moments, and a signal that comes in one of them ends
// the call before it has done anything.
bool ask(int listener, unsigned long request, void* argument) {
  int result = -1;
  do {
    result = ::ioctl(listener, request, argument);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

bool send(int listener, const seccomp_notif_resp& response) {
  Buffer buffer;
  std::memcpy(buffer.bytes.data(), &response, sizeof(response));
  return ask(listener, SECCOMP_IOCTL_NOTIF_SEND, &buffer);
}

// The process of a thread, for kernels whose pidfds are of processes alone.
pid_t process_of(pid_t thread) {
  const auto status = read_file(fmt::format("/proc/{}/status", thread));
  if (!status) return -1;
  const std::size_t at = status->find("\nTgid:");
  return at == std::string::npos ? -1 : static_cast<pid_t>(std::atoi(status->c_str() + at + 6));
}

}  // namespace

Result<Notifications> Notifications::open(UniqueFd listener) {
  if (!fits()) return fail(Code::Unsupported, "this kernel's notifications are of another size");
  // Older kernels do not have it, and are slower for it.
  (void)::ioctl(listener.get(), kSetFlags, kSyncWakeUp);
  return Notifications(std::move(listener));
}

std::optional<WaitingCall> Notifications::receive() const {
  Buffer buffer;
  if (!ask(listener_.get(), SECCOMP_IOCTL_NOTIF_RECV, &buffer)) return std::nullopt;
  seccomp_notif got{};
  std::memcpy(&got, buffer.bytes.data(), sizeof(got));
  WaitingCall call{got.id, static_cast<pid_t>(got.pid), got.data.nr, {}};
  for (std::size_t i = 0; i < call.arguments.size(); ++i) call.arguments.at(i) = got.data.args[i];
  return call;
}

bool Notifications::still_waits(std::uint64_t id) const {
  return ask(listener_.get(), SECCOMP_IOCTL_NOTIF_ID_VALID, &id);
}

bool Notifications::answer(std::uint64_t id, std::int64_t value, int error) const {
  seccomp_notif_resp response{};
  response.id = id;
  response.val = error == 0 ? value : 0;
  response.error = -error;
  return send(listener_.get(), response);
}

bool Notifications::let_through(std::uint64_t id) const {
  seccomp_notif_resp response{};
  response.id = id;
  response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  return send(listener_.get(), response);
}

bool Notifications::install(std::uint64_t id, BorrowedFd fd, int at, OnExec on_exec) const {
  seccomp_notif_addfd addition{};
  addition.id = id;
  addition.flags = SECCOMP_ADDFD_FLAG_SETFD;
  addition.srcfd = static_cast<std::uint32_t>(fd.get());
  addition.newfd = static_cast<std::uint32_t>(at);
  addition.newfd_flags = on_exec == OnExec::Close ? O_CLOEXEC : 0;
  // The kernel waits until the box's thread takes it, which on a busy host takes more than one of
  // the broker's periods. What was taken when the signal came is not answered with EINTR.
  for (int i = 0; i < kMostWaits; ++i) {
    if (::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_ADDFD, &addition) >= 0) return true;
    if (errno != EINTR) return false;
  }
  return false;
}

ssize_t read_memory(pid_t thread, std::uint64_t address, std::span<std::byte> into) {
  iovec local{into.data(), into.size()};
  iovec remote{reinterpret_cast<void*>(address), into.size()};
  return ::process_vm_readv(thread, &local, 1, &remote, 1, 0);
}

UniqueFd open_process(pid_t thread) {
  auto process = open_pidfd(thread, kPidfdThread);
  if (!process && process.error().os_errno == EINVAL) {
    process = open_pidfd(thread);
    if (!process) process = open_pidfd(process_of(thread));
  }
  return process ? *std::move(process) : UniqueFd();
}

UniqueFd open_root_of(pid_t thread) {
  const std::string path = fmt::format("/proc/{}/root", thread);
  return UniqueFd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

UniqueFd fetch_descriptor(BorrowedFd process, int number) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), number, 0)));
}

}  // namespace glovebox::egress
