#include "launch/id_mapped.h"

#include "base/file.h"
#include "base/pidfd.h"
#include "launch/child/read_back.h"
#include "launch/namespaces.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/prctl.h>

namespace glovebox::launch {
namespace {

// A process that only exists to own a user namespace while the namespace is opened. Killed and
// reaped by the destructor.
class NamespaceOwner {
 public:
  static Result<NamespaceOwner> start() {
    int pidfd = -1;
    clone_args args{};
    args.flags = CLONE_NEWUSER | CLONE_PIDFD;
    args.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
    const pid_t parent = ::getpid();
    const long pid = clone_child(args);
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
      // The parent may have been killed before it was asked about.
      while (::getppid() == parent) ::pause();
      ::_exit(0);
    }
    if (pid < 0 && errno == kNotInForce) {
      return fail_not_in_force("make a user namespace for idmapped mounts");
    }
    if (pid < 0) return fail_os(errno, "make a user namespace for idmapped mounts");
    return NamespaceOwner(static_cast<pid_t>(pid), UniqueFd(pidfd));
  }
  NamespaceOwner(NamespaceOwner&&) = default;
  NamespaceOwner& operator=(NamespaceOwner&&) = delete;
  ~NamespaceOwner() {
    if (!pidfd_) return;
    // Not reaped yet, so the pid is still its own.
    if (!kill_process(pidfd_)) (void)::kill(pid_, SIGKILL);
    (void)reap_process(pidfd_);
  }
  pid_t pid() const { return pid_; }

 private:
  NamespaceOwner(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  pid_t pid_;
  UniqueFd pidfd_;
};

}  // namespace

Result<BorrowedFd> IdMaps::from(std::uint32_t owner, std::uint32_t group) {
  const auto found = known_.find({owner, group});
  if (found != known_.end()) return BorrowedFd(found->second.get());
  TRY(const NamespaceOwner process, NamespaceOwner::start());
  const std::string proc = fmt::format("/proc/{}", process.pid());
  TRY_VOID(write_control(proc + "/uid_map", fmt::format("{} {} 1", owner, box_uid_)));
  TRY_VOID(write_control(proc + "/gid_map", fmt::format("{} {} 1", group, box_uid_)));
  TRY(UniqueFd map, open_file(proc + "/ns/user", O_RDONLY));
  const BorrowedFd borrowed = map;
  known_.emplace(std::pair(owner, group), std::move(map));
  return borrowed;
}

}  // namespace glovebox::launch
