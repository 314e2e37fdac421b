#include "base/file.h"
#include "doctor/kernel_calls.h"
#include "doctor/probe_trials.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace glovebox::host::probe {
namespace {

struct FilesystemName {
  std::int64_t magic;
  const char* name;
};
constexpr std::array<FilesystemName, 12> kFilesystems{{{EXT4_SUPER_MAGIC, "ext4"},
                                                       {0x58465342, "xfs"},
                                                       {BTRFS_SUPER_MAGIC, "btrfs"},
                                                       {TMPFS_MAGIC, "tmpfs"},
                                                       {OVERLAYFS_SUPER_MAGIC, "overlay"},
                                                       {F2FS_SUPER_MAGIC, "f2fs"},
                                                       {0x2fc12fc1, "zfs"},
                                                       {NFS_SUPER_MAGIC, "nfs"},
                                                       {0x65735546, "fuse or virtiofs"},
                                                       {0x01021997, "9p"},
                                                       {0x5346544e, "ntfs"},
                                                       {MSDOS_SUPER_MAGIC, "vfat"}}};

std::string filesystem_of(int fd) {
  struct statfs info{};
  if (::fstatfs(fd, &info) != 0) return "unknown";
  for (const FilesystemName& known : kFilesystems) {
    if (known.magic == static_cast<std::int64_t>(info.f_type)) return known.name;
  }
  return fmt::format("filesystem {:#x}", static_cast<unsigned long>(info.f_type));
}

bool write_file(int dir, const char* path, std::string_view text) {
  const UniqueFd file(::openat(dir, path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool exists(const char* path) { return ::faccessat(AT_FDCWD, path, F_OK, 0) == 0; }

// Makes a tmpfs the working directory, with "lower/kept", "upper", "work" and "merged" in it.
std::optional<Reply> lay_out_layers() {
  const UniqueFd fs = fsopen("tmpfs");
  if (!fs || !fsconfig_create(fs.get())) return failed("make a tmpfs", Cause::MountNamespace);
  const UniqueFd top = fsmount(fs.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
  if (!top || !move_mount(top.get(), AT_FDCWD, "/") || ::fchdir(top.get()) != 0) {
    return failed("mount a tmpfs", Cause::MountNamespace);
  }
  for (const char* name : {"lower", "upper", "work", "merged"}) {
    if (::mkdirat(top.get(), name, 0700) != 0) return failed("make the layers");
  }
  if (!write_file(top.get(), "lower/kept", "lower")) return failed("fill the lower layer");
  return std::nullopt;
}

Reply mount_overlay() {
  if (const auto problem = lay_out_layers()) return *problem;
  const UniqueFd fs = fsopen("overlay");
  if (!fs) return failed("fsopen overlay");
  if (!fsconfig_string(fs.get(), "lowerdir", "lower") ||
      !fsconfig_string(fs.get(), "upperdir", "upper") ||
      !fsconfig_string(fs.get(), "workdir", "work") || !fsconfig_flag(fs.get(), "userxattr")) {
    return failed("configure an overlay");
  }
  if (!fsconfig_create(fs.get())) return failed("create an overlay");
  const UniqueFd overlay = fsmount(fs.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
  if (!overlay || !move_mount(overlay.get(), AT_FDCWD, "merged")) return failed("mount an overlay");
  if (!write_file(AT_FDCWD, "merged/fresh", "upper")) return failed("write through the overlay");
  if (::unlinkat(AT_FDCWD, "merged/kept", 0) != 0) return failed("remove through the overlay");
  if (!exists("upper/fresh") || exists("lower/fresh") || !exists("lower/kept") ||
      exists("merged/kept")) {
    return wrong("a change did not land in the upper layer alone");
  }
  return seen("userxattr; writes and removals land in the upper layer (on tmpfs)");
}

// The maps of a process that waits to be killed; its namespace outlives it through the descriptor.
UniqueFd make_map(pid_t pid, const struct stat& tree, uid_t box_uid) {
  const std::string proc = fmt::format("/proc/{}", pid);
  const auto uid = write_control(proc + "/uid_map", fmt::format("{} {} 1", tree.st_uid, box_uid));
  const auto gid = write_control(proc + "/gid_map", fmt::format("{} {} 1", tree.st_gid, box_uid));
  if (!uid || !gid) errno = uid ? gid.error().os_errno : uid.error().os_errno;
  if (!uid || !gid) return {};
  return UniqueFd(::open((proc + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC));
}

Reply idmap(const char* path, unsigned depth, uid_t box_uid, pid_t owner) {
  const UniqueFd tree = open_tree(AT_FDCWD, path, kOpenTreeClone | O_CLOEXEC | depth);
  if (!tree) return failed(fmt::format("open_tree {}", path), Cause::MountNamespace);
  struct stat info{};
  if (::fstat(tree.get(), &info) != 0) return failed("stat");
  const UniqueFd map = make_map(owner, info, box_uid);
  if (!map) return failed("make the map of an idmapped mount", Cause::UserNamespace);
  const MountAttributes change{.set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_IDMAP,
                               .userns_fd = static_cast<std::uint64_t>(map.get())};
  const std::string kind = filesystem_of(tree.get());
  if (!mount_setattr(tree.get(), "", AT_EMPTY_PATH | depth, change)) {
    return failed(fmt::format("idmap {} ({})", path, kind));
  }
  if (::fstat(tree.get(), &info) != 0 || info.st_uid != box_uid || info.st_gid != box_uid) {
    return wrong("the owner is not shown as the box's user");
  }
  return seen(fmt::format("{} ({})", path, kind));
}

Reply try_idmap(const Stage& stage, const std::string& path) {
  if (!stage.is_root()) return not_applicable("boxes run as the caller, who owns the trees");
  if (const auto problem = stand_as_launcher(stage)) return *problem;
  // "/" is never handed into a box: its filesystem alone is tried. A tree comes with all below it.
  const unsigned depth = path == "/" ? 0 : kRecursive;
  CloneRequest request;
  request.flags = CLONE_NEWUSER;
  request.cause = Cause::UserNamespace;
  request.in_parent = [&](pid_t pid, int) {
    return std::optional(idmap(path.c_str(), depth, stage.box_uid, pid));
  };
  return in_clone(request, [] {
    while (true) ::pause();
    return Reply();
  });
}

}  // namespace

Reply try_overlay(const Stage& stage) {
  if (const auto problem = stand_as_launcher(stage)) return *problem;
  return in_box(stage, CLONE_NEWNS, mount_overlay);
}

Reply try_idmap_root(const Stage& stage) { return try_idmap(stage, "/"); }
Reply try_idmap_tmp(const Stage& stage) { return try_idmap(stage, "/tmp"); }
Reply try_idmap_current(const Stage& stage) { return try_idmap(stage, stage.current_directory); }

}  // namespace glovebox::host::probe
