#include "base/pipe.h"
#include "doctor/kernel_calls.h"
#include "doctor/probe_trials.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::host::probe {
namespace {

constexpr long kAnswer = 424'242;  // what the call that waits is told; no process has this number
constexpr std::uint32_t kTrapped = SYS_getppid;

UniqueFd install_notifying_filter() {
  std::array<sock_filter, 4> filter{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kTrapped, 0, 1),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog program{filter.size(), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return {};
  return fd_of(
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
}

using Answer = std::function<std::optional<Reply>(int listener, const seccomp_notif& call)>;

std::optional<Reply> receive_and_answer(int listener, const Answer& answer) {
  seccomp_notif call{};
  if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
    return failed("receive a notification");
  }
  if (call.data.nr != static_cast<int>(kTrapped)) return wrong("another call was notified");
  return answer(listener, call);
}

// Sends a descriptor, or word that there is none (-1).
bool send_descriptor(int socket, int fd) {
  char word = fd >= 0 ? 'y' : 'n';
  iovec part{&word, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  if (fd >= 0) {
    packet.msg_control = control.data();
    packet.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&packet);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  return ::sendmsg(socket, &packet, MSG_NOSIGNAL) == 1;
}

UniqueFd receive_descriptor(int socket) {
  char word = 0;
  iovec part{&word, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  packet.msg_control = control.data();
  packet.msg_controllen = control.size();
  if (::recvmsg(socket, &packet, MSG_CMSG_CLOEXEC) != 1) return {};
  const cmsghdr* header = CMSG_FIRSTHDR(&packet);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
  return UniqueFd(fd);
}

// A child traps a call of its own, we answer it with `answer`, and the child looks with `check` at
// what the call then returned.
Reply notify(const Answer& answer, const std::function<Reply(long)>& check) {
  auto pair = open_socket_pair(SOCK_SEQPACKET);
  if (!pair) return failed("make a socket pair", pair.error());
  CloneRequest request;
  request.in_parent = [&](pid_t, int) -> std::optional<Reply> {
    pair->theirs.reset();
    const UniqueFd listener = receive_descriptor(pair->ours.get());
    if (!listener) return std::nullopt;  // the child says why
    return receive_and_answer(listener.get(), answer);
  };
  return in_clone(request, [&] {
    UniqueFd listener = install_notifying_filter();
    const Reply problem = failed("install a filter with a listener");
    if (!send_descriptor(pair->theirs.get(), listener.get())) {
      return failed("hand over the listener");
    }
    if (!listener) return problem;
    listener.reset();  // the process that answers holds it alone: if it dies, the call gets ENOSYS
    return check(::syscall(SYS_getppid));
  });
}

bool same_file(int a, int b) {
  struct stat left{};
  struct stat right{};
  return ::fstat(a, &left) == 0 && ::fstat(b, &right) == 0 && left.st_ino == right.st_ino &&
         left.st_dev == right.st_dev;
}

}  // namespace

Reply try_seccomp_notify(const Stage& /*stage*/) {
  const Answer say_number = [](int listener, const seccomp_notif& call) -> std::optional<Reply> {
    seccomp_notif_resp answer{};
    answer.id = call.id;
    answer.val = kAnswer;
    if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0) return std::nullopt;
    return failed("answer a notification");
  };
  return notify(say_number, [](long result) {
    if (result != kAnswer) return wrong("the answer did not arrive");
    return seen("a call was notified and answered");
  });
}

Reply try_seccomp_addfd(const Stage& /*stage*/) {
  const UniqueFd file(::memfd_create("glovebox-doctor", MFD_CLOEXEC));
  if (!file) return failed("make a memfd");
  const Answer add_file = [&](int listener, const seccomp_notif& call) -> std::optional<Reply> {
    seccomp_notif_addfd addition{};
    addition.id = call.id;
    addition.flags = SECCOMP_ADDFD_FLAG_SEND;
    addition.srcfd = static_cast<std::uint32_t>(file.get());
    addition.newfd_flags = O_CLOEXEC;
    if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &addition) >= 0) return std::nullopt;
    return failed("install a descriptor");
  };
  return notify(add_file, [&](long result) {
    const int added = static_cast<int>(result);
    if (added == file.get() || !same_file(added, file.get())) return wrong("another file arrived");
    return seen("a descriptor was installed as the answer");
  });
}

Reply try_pidfd_getfd(const Stage& /*stage*/) {
  const auto ready = open_pipe();
  if (!ready) return failed("make a pipe", ready.error());
  CloneRequest request;
  request.in_parent = [&](pid_t, int pidfd) -> std::optional<Reply> {
    int theirs = -1;
    if (::read(ready->read.get(), &theirs, sizeof(theirs)) !=
        static_cast<ssize_t>(sizeof(theirs))) {
      return wrong("the child did not answer");
    }
    const UniqueFd file = fd_of(::syscall(SYS_pidfd_getfd, pidfd, theirs, 0));
    if (!file) return failed("pidfd_getfd");
    struct stat info{};
    if (::fstat(file.get(), &info) != 0 || info.st_size != 1) return wrong("another file arrived");
    return seen("a descriptor was fetched from a child");
  };
  return in_clone(request, [&] {
    const int file = ::memfd_create("glovebox-doctor", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, 1) != 0) return failed("make a memfd");
    if (::write(ready->write.get(), &file, sizeof(file)) < 0) return failed("tell the parent");
    while (true) ::pause();
    return Reply();
  });
}

}  // namespace glovebox::host::probe
