#include "doctor/probe_stage.h"

#include "base/file.h"
#include "doctor/kernel_calls.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::host::probe {
namespace {

constexpr uid_t kUidInside = 1000;

// Result's error carries errno; trials speak in errno.
bool write_to(const std::string& path, std::string_view text) {
  const auto done = write_control(path, text);
  if (!done) errno = done.error().os_errno;
  return done.has_value();
}

// The first moments of a box: the launcher's maps, then the ids themselves.
std::optional<Reply> take_box_identity(const Stage& stage) {
  const uid_t uid = stage.is_root() ? kUidInside : stage.facts.uid;
  const gid_t gid = stage.is_root() ? kUidInside : stage.facts.gid;
  const uid_t outside_uid = stage.is_root() ? stage.box_uid : stage.facts.uid;
  const gid_t outside_gid = stage.is_root() ? stage.box_uid : stage.facts.gid;
  if (!write_id_maps(uid, outside_uid, gid, outside_gid)) {
    return failed("write the id maps of a box", Cause::UserNamespace);
  }
  if (::syscall(SYS_setresgid, gid, gid, gid) != 0 ||
      ::syscall(SYS_setresuid, uid, uid, uid) != 0) {
    return failed("take the box's ids", Cause::UserNamespace);
  }
  // A change of ids has cleared it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  return std::nullopt;
}

}  // namespace

bool write_id_maps(uid_t inside_uid, uid_t outside_uid, gid_t inside_gid, gid_t outside_gid) {
  return write_to("/proc/self/setgroups", "deny") &&
         write_to("/proc/self/uid_map", fmt::format("{} {} 1", inside_uid, outside_uid)) &&
         write_to("/proc/self/gid_map", fmt::format("{} {} 1", inside_gid, outside_gid));
}

bool become_box_uid(uid_t uid) {
  return ::syscall(SYS_setresgid, uid, uid, 0) == 0 && ::syscall(SYS_setresuid, uid, uid, 0) == 0 &&
         ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
}

bool become_root_again() {
  return ::syscall(SYS_setresuid, 0, 0, 0) == 0 && ::syscall(SYS_setresgid, 0, 0, 0) == 0;
}

std::optional<Reply> take_launcher_identity(const Stage& stage) {
  if (!stage.is_root()) {
    if (::unshare(CLONE_NEWUSER) != 0) return failed("make a user namespace", Cause::UserNamespace);
    const uid_t uid = stage.facts.uid;
    const gid_t gid = stage.facts.gid;
    if (write_id_maps(uid, uid, gid, gid)) return std::nullopt;
    return failed("map the caller into a user namespace", Cause::UserNamespace);
  }
  if (::setgroups(0, nullptr) != 0) return failed("drop groups", Cause::UserNamespace);
  if (::prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) != 0) {
    return failed("set securebits", Cause::UserNamespace);
  }
  return std::nullopt;
}

std::optional<Reply> stand_as_launcher(const Stage& stage) {
  if (const auto problem = take_launcher_identity(stage)) return problem;
  if (::unshare(CLONE_NEWNS) != 0) return failed("make a mount namespace", Cause::MountNamespace);
  const MountAttributes change{.propagation = MS_PRIVATE};
  if (mount_setattr(AT_FDCWD, "/", kRecursive, change)) return std::nullopt;
  return failed("cut the mounts off from the host", Cause::MountNamespace);
}

Reply in_box(const Stage& stage, std::uint64_t namespaces, const Body& body) {
  if (stage.is_root() && !become_box_uid(stage.box_uid)) {
    return failed(fmt::format("take uid {}", stage.box_uid), Cause::UserNamespace);
  }
  CloneRequest request;
  request.flags = CLONE_NEWUSER | CLONE_CLEAR_SIGHAND | namespaces;
  request.cause = Cause::UserNamespace;
  return in_clone(request, [&] {
    const auto problem = take_box_identity(stage);
    return problem ? *problem : body();
  });
}

bool drop_capabilities() {
  constexpr unsigned long kBits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                                  SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                  SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  if (::prctl(PR_SET_SECUREBITS, kBits, 0, 0, 0) != 0) return false;
  for (unsigned long capability = 0; capability < 64; ++capability) {
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
    if (errno != EINVAL || capability == 0) return false;
    break;  // past the last one that this kernel knows
  }
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) return false;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<__user_cap_data_struct, 2> none{};
  return ::syscall(SYS_capset, &header, none.data()) == 0;
}

}  // namespace glovebox::host::probe
