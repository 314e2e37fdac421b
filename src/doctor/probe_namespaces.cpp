#include "base/unique_fd.h"
#include "doctor/probe_trials.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <string>

#include <fcntl.h>
#include <linux/if.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::host::probe {
namespace {

// The namespace of this process, as a number; 0 when it cannot be read.
ino_t own_namespace(const char* name) {
  struct stat info{};
  const std::string path = fmt::format("/proc/self/ns/{}", name);
  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

// A box is cloned into the namespace, and then is in another one than we are.
Reply try_box_namespace(const Stage& stage, std::uint64_t flag, const char* name,
                        const Body& use = {}) {
  if (const auto problem = stand_as_launcher(stage)) return *problem;
  const ino_t outside = own_namespace(name);
  return in_box(stage, flag, [&] {
    if (outside == 0 || own_namespace(name) == outside) {
      return wrong(fmt::format("the {} namespace is the host's still", name));
    }
    return use ? use() : seen("a box gets its own");
  });
}

Reply use_network() {
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return failed("open a socket");
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(fd.get(), SIOCSIFFLAGS, &request) != 0) return failed("bring up loopback");
  return seen("empty, loopback of its own");
}

}  // namespace

Reply try_box_uid(const Stage& stage) {
  if (!stage.is_root()) return not_applicable("boxes run as the caller");
  if (const auto problem = take_launcher_identity(stage)) {
    Reply reply = *problem;
    reply.cause = Cause::Itself;
    return reply;
  }
  if (!become_box_uid(stage.box_uid)) return failed(fmt::format("take uid {}", stage.box_uid));
  if (::geteuid() != stage.box_uid || ::getegid() != stage.box_uid)
    return wrong("ids did not change");
  if (!become_root_again()) return failed("become root again");
  return seen(fmt::format("uid {} taken and given back", stage.box_uid));
}

// The lease is a lock in a file below /run; this one is made in a file without a name.
Reply try_uid_lease(const Stage& stage) {
  if (!stage.is_root()) return not_applicable("boxes run as the caller");
  constexpr const char* kLeases = "/run/glovebox";
  struct stat info{};
  const bool exists = ::lstat(kLeases, &info) == 0;
  if (exists && (!S_ISDIR(info.st_mode) || info.st_uid != 0 || (info.st_mode & 0022) != 0)) {
    return wrong("/run/glovebox is not a directory that only root can write");
  }
  const UniqueFd file(
      ::open(exists ? kLeases : "/run", O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file) return failed(fmt::format("make a file below {}", exists ? kLeases : "/run"));
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  if (::fcntl(file.get(), F_OFD_SETLK, &lock) != 0) return failed("lock a byte of it");
  return seen("a file below /run can be locked");
}

Reply try_clone3(const Stage& /*stage*/) {
  CloneRequest request;
  request.flags = CLONE_CLEAR_SIGHAND;
  ::signal(SIGUSR1, [](int) {});
  return in_clone(request, [] {
    struct sigaction action{};
    ::sigaction(SIGUSR1, nullptr, &action);
    if (action.sa_handler != SIG_DFL) return wrong("signal handlers were not cleared");
    return seen("CLONE_PIDFD, CLONE_CLEAR_SIGHAND");
  });
}

// As root this is the box's own, as a user the launcher's.
Reply try_user_namespace(const Stage& stage) {
  const ino_t outside = own_namespace("user");
  if (const auto problem = take_launcher_identity(stage)) return *problem;
  const auto look = [&] {
    if (outside == 0 || own_namespace("user") == outside) return wrong("it is the host's still");
    return seen("made, ids mapped");
  };
  return stage.is_root() ? in_box(stage, 0, look) : look();
}

Reply try_nested_user_namespace(const Stage& stage) {
  if (stage.is_root()) return not_applicable("as root a box is one level deep");
  return try_box_namespace(stage, 0, "user",
                           [] { return seen("made inside one's own, ids mapped"); });
}

Reply try_mount_namespace(const Stage& stage) {
  return try_box_namespace(stage, CLONE_NEWNS, "mnt");
}

Reply try_pid_namespace(const Stage& stage) {
  return try_box_namespace(stage, CLONE_NEWPID, "pid", [] {
    if (::syscall(SYS_getpid) != 1) return wrong("the first process is not number 1");
    return seen("a box gets its own, its init is 1");
  });
}

// Not cloned into but entered afterwards, as a box does.
Reply try_net_namespace(const Stage& stage) {
  if (const auto problem = stand_as_launcher(stage)) return *problem;
  const ino_t outside = own_namespace("net");
  return in_box(stage, 0, [&] {
    if (::unshare(CLONE_NEWNET) != 0) return failed("make a network namespace");
    if (own_namespace("net") == outside) return wrong("the network is the host's still");
    return use_network();
  });
}

Reply try_ipc_namespace(const Stage& stage) {
  return try_box_namespace(stage, CLONE_NEWIPC, "ipc");
}

Reply try_uts_namespace(const Stage& stage) {
  return try_box_namespace(stage, CLONE_NEWUTS, "uts", [] {
    if (::sethostname("box", 3) != 0) return failed("set the host name");
    return seen("a box gets its own, host name set");
  });
}

Reply try_cgroup_namespace(const Stage& stage) {
  return try_box_namespace(stage, CLONE_NEWCGROUP, "cgroup");
}

}  // namespace glovebox::host::probe
