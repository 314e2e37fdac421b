#include "launch/child/context.h"
#include "launch/child/read_back.h"
#include "launch/child/sys.h"
#include "launch/child/text.h"

#include <csignal>

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>

namespace glovebox::launch {
namespace {

bool write_text(int dir, const char* path, const char* text, std::size_t size) noexcept {
  const int fd = ::openat(dir, path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t written = ::write(fd, text, size);
  sys::close_quietly(fd);
  if (written >= 0 && static_cast<std::size_t>(written) != size) errno = EIO;
  return written >= 0 && static_cast<std::size_t>(written) == size;
}

bool write_map(int dir, const char* path, std::uint64_t inside, std::uint64_t outside) noexcept {
  Line line;
  line.number(inside).put(' ').number(outside).put(' ').number(1);
  return line.fits() && write_text(dir, path, line.text(), line.size());
}

// What this process asked the kernel for with prctl(2).
bool dies_with_launcher_unseen() noexcept {
  int signal = 0;
  if (::prctl(PR_GET_PDEATHSIG, &signal, 0, 0, 0) != 0) return false;
  return (signal == SIGKILL && ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0) || not_in_force();
}

// By another call than the one that sets them.
bool has_limit(unsigned resource, const struct rlimit& limit) noexcept {
  struct rlimit now{~limit.rlim_cur, ~limit.rlim_max};  // what would be refused
  if (::syscall(SYS_getrlimit, resource, &now) != 0) return false;
  return (now.rlim_cur == limit.rlim_cur && now.rlim_max == limit.rlim_max) || not_in_force();
}

}  // namespace

bool write_id_maps(std::uint64_t inside_uid, std::uint64_t outside_uid, std::uint64_t inside_gid,
                   std::uint64_t outside_gid) noexcept {
  const int self = ::openat(AT_FDCWD, "/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (self < 0) return false;
  // Denied first: the kernel takes a group map from the unprivileged only then, and for the box it
  // means that no process in it can ever call setgroups (user_namespaces(7)).
  const bool done = write_text(self, "setgroups", "deny", 4) &&
                    write_map(self, "uid_map", inside_uid, outside_uid) &&
                    write_map(self, "gid_map", inside_gid, outside_gid);
  sys::close_quietly(self);
  return done;
}

// Maps one id each way and becomes it. The clone inherited real, effective and saved ids of the
// launcher's making; all three are set, then asked for, so that none is left over.
bool map_identity(const ChildContext& context, std::uint64_t uid, std::uint64_t gid) noexcept {
  if (!write_id_maps(uid, context.outside_uid, gid, context.outside_gid)) return false;
  const auto u = static_cast<uid_t>(uid);
  const auto g = static_cast<gid_t>(gid);
  if (::syscall(SYS_setresgid, g, g, g) != 0 || ::syscall(SYS_setresuid, u, u, u) != 0)
    return false;
  uid_t ids[6] = {~u, ~u, ~u, ~g, ~g, ~g};
  if (::syscall(SYS_getresuid, &ids[0], &ids[1], &ids[2]) != 0 ||
      ::syscall(SYS_getresgid, &ids[3], &ids[4], &ids[5]) != 0) {
    return false;
  }
  for (int i = 0; i < 3; ++i) {
    if (ids[i] != u || ids[i + 3] != g) return not_in_force();
  }
  // The change of identity has cleared what ties this process to its launcher.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return false;
  // No process of the box may look into its init: not its memory, its files, nor its program.
  return ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && dies_with_launcher_unseen();
}

// The counts of a user namespace are set by a process with power over it, as this process still
// has.
bool cap_namespace(const char* count, std::uint64_t limit) noexcept {
  const int dir = ::openat(AT_FDCWD, "/proc/sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return false;
  Line line;
  line.number(limit);
  bool done = write_text(dir, count, line.text(), line.size());
  char text[sizeof(Line)] = {};
  const int fd = done ? ::openat(dir, count, O_RDONLY | O_CLOEXEC) : -1;
  done = fd >= 0 && ::read(fd, text, sizeof(text) - 1) > 0;
  for (std::size_t i = 0; done && i < line.size(); ++i) {
    if (text[i] != line.text()[i]) done = not_in_force();
  }
  if (done && text[line.size()] != '\n') done = not_in_force();
  sys::close_quietly(fd);
  sys::close_quietly(dir);
  return done;
}

bool set_limit(std::uint64_t resource, std::uint64_t value) noexcept {
  const struct rlimit limit{value, value};
  const auto which = static_cast<unsigned>(resource);
  return ::syscall(SYS_prlimit64, 0, which, &limit, nullptr) == 0 && has_limit(which, limit);
}

bool cap_limit(std::uint64_t resource, std::uint64_t value) noexcept {
  struct rlimit limit{};
  const auto which = static_cast<unsigned>(resource);
  if (::syscall(SYS_getrlimit, which, &limit) != 0) return false;
  if (limit.rlim_max > value) limit.rlim_max = value;
  if (limit.rlim_cur > value) limit.rlim_cur = value;
  return ::syscall(SYS_prlimit64, 0, which, &limit, nullptr) == 0 && has_limit(which, limit);
}

// Securebits first: afterwards uid 0 inside (if it is mapped) means nothing to execve, and no
// capability can be made ambient. Then the bounding set, then the sets themselves.
bool drop_capabilities() noexcept {
  if (::prctl(PR_SET_SECUREBITS, kLockedSecurebits, 0, 0, 0) != 0) return false;
  constexpr unsigned long kMore = 63;
  for (unsigned long capability = 0; capability <= kMore; ++capability) {
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
    if (errno != EINVAL || capability == 0) return false;
    break;  // past the last one that this kernel knows
  }
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) return false;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  return ::syscall(SYS_capset, &header, none) == 0;
}

}  // namespace glovebox::launch
