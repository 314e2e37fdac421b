// Changing the mount tree, and reading it to check what it promises.
#include "probe.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

// Flags of mount(2), by value: <sys/mount.h> and <linux/mount.h> cannot be included together.
constexpr unsigned long kBind = 4096;
constexpr unsigned long kRemount = 32;

long raw_mount(const char* source, const char* target, const char* type, unsigned long flags) {
  return syscall(SYS_mount, source, target, type, flags, nullptr);
}

int try_mount(Args args) { return met(raw_mount("tmpfs", text_or(args, 0, "/tmp"), "tmpfs", 0)); }
int try_mount_proc(Args args) { return met(raw_mount("proc", text(args, 0), "proc", 0)); }
int try_bind(Args args) { return met(raw_mount(text(args, 0), text(args, 1), nullptr, kBind)); }
int try_umount(Args args) { return met(syscall(SYS_umount2, text(args, 0), 2 /*MNT_DETACH*/)); }
int try_remount_rw(Args args) {
  return met(raw_mount(nullptr, text(args, 0), nullptr, kRemount | kBind));
}
int try_pivot_root(Args args) { return met(syscall(SYS_pivot_root, text(args, 0), text(args, 1))); }
int try_chroot(Args args) { return met(chroot(text(args, 0))); }
int try_fsopen(Args) { return met(syscall(SYS_fsopen, "tmpfs", 0)); }
int try_open_tree(Args args) {
  return met(syscall(SYS_open_tree, AT_FDCWD, text_or(args, 0, "/"), 1 /*OPEN_TREE_CLONE*/));
}
int try_move_mount(Args) {
  return met(syscall(SYS_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, "/usr", 0));
}
int try_mount_setattr(Args args) {
  mount_attr attributes{};
  attributes.attr_clr = MOUNT_ATTR_RDONLY;
  return met(syscall(SYS_mount_setattr, AT_FDCWD, text_or(args, 0, "/"), 0, &attributes,
                     sizeof attributes));
}

// mknod(2) as a character device MAJOR MINOR.
int try_mknod(Args args) {
  const auto major = static_cast<unsigned>(number(args, 1));
  const auto minor = static_cast<unsigned>(number(args, 2));
  return met(mknod(text(args, 0), S_IFCHR | 0666, makedev(major, minor)));
}

struct MountLine {
  std::string root, point, options, optional_fields, type;
};

std::vector<MountLine> read_mounts() {
  std::vector<MountLine> mounts;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string skipped, word;
    MountLine mount;
    words >> skipped >> skipped >> skipped >> mount.root >> mount.point >> mount.options;
    while (words >> word && word != "-") mount.optional_fields += word + " ";
    words >> mount.type;
    mounts.push_back(mount);
  }
  return mounts;
}

bool has_option(const MountLine& mount, const std::string& option) {
  return ("," + mount.options + ",").find("," + option + ",") != std::string::npos;
}

bool may_be_writable(const std::string& point, Args writable) {
  for (const char* prefix : writable) {
    if (point == prefix || point.starts_with(std::string(prefix) + "/")) return true;
  }
  return false;
}

// Checks every mount: nosuid and nodev (devices need nodev off, and are then single nodes), no
// propagation to or from another tree, and read-only unless the arguments name it as writable.
int check_mounts(Args args) {
  int problems = 0;
  const auto mounts = read_mounts();
  const auto complain = [&](const MountLine& mount, const char* what) {
    say("%s at %s (%s, root %s): %s", mount.type.c_str(), mount.point.c_str(),
        mount.options.c_str(), mount.root.c_str(), what);
    ++problems;
  };
  for (const MountLine& mount : mounts) {
    const bool in_dev = mount.point == "/dev" || mount.point.starts_with("/dev/");
    if (!has_option(mount, "nosuid")) complain(mount, "no nosuid");
    if (!in_dev && !has_option(mount, "nodev")) complain(mount, "no nodev");
    if (!mount.optional_fields.empty()) complain(mount, "propagates");
    if (!in_dev && !has_option(mount, "ro") && !may_be_writable(mount.point, args)) {
      complain(mount, "writable");
    }
  }
  say("%zu mounts, %d problems", mounts.size(), problems);
  if (mounts.empty()) return ENOENT;
  return problems == 0 ? 0 : EBADE;
}

constexpr Probe kProbes[] = {
    {"mount", try_mount, "[TARGET]: mounts a tmpfs"},
    {"mount_proc", try_mount_proc, "TARGET: mounts another proc"},
    {"bind", try_bind, "SOURCE TARGET: bind-mounts"},
    {"umount", try_umount, "TARGET: unmounts lazily"},
    {"remount_rw", try_remount_rw, "TARGET: takes read-only off a mount"},
    {"pivot_root", try_pivot_root, "NEW OLD: changes the root mount"},
    {"chroot", try_chroot, "DIR: changes the root directory"},
    {"fsopen", try_fsopen, "opens a tmpfs context with the mount API"},
    {"open_tree", try_open_tree, "[PATH]: clones a mount tree"},
    {"move_mount", try_move_mount, "moves /tmp over /usr"},
    {"mount_setattr", try_mount_setattr, "[PATH]: clears read-only with mount_setattr"},
    {"mknod", try_mknod, "PATH MAJOR MINOR: makes a character device"},
    {"mounts", check_mounts, "[WRITABLE...]: checks ro, nosuid, nodev and propagation of all"},
};

}  // namespace

std::span<const Probe> mount_probes() { return kProbes; }

}  // namespace glovebox::probe
