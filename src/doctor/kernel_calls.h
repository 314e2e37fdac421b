// The kernel calls of a launch, for the trials: the same calls, without glibc in between where it
// has no wrapper. The launcher's own copy (launch/child/sys.h) obeys the rules between clone and
// exec.
#pragma once

#include "base/unique_fd.h"

#include <cstdint>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::host::probe {

// Newer than Debian's headers, or in headers that clash with glibc's.
inline constexpr unsigned kOpenTreeClone = 1;
inline constexpr unsigned kRecursive = 0x8000;
inline constexpr unsigned kMoveFromEmptyPath = 0x00000004;
inline constexpr int kDetach = 2;  // MNT_DETACH

// struct mount_attr of mount_setattr(2).
struct MountAttributes {
  std::uint64_t set = 0;
  std::uint64_t clear = 0;
  std::uint64_t propagation = 0;
  std::uint64_t userns_fd = 0;
};

inline UniqueFd fd_of(long number) { return UniqueFd(static_cast<int>(number)); }

inline UniqueFd open_tree(int dir, const char* path, unsigned flags) {
  return fd_of(::syscall(SYS_open_tree, dir, path, flags));
}
inline bool move_mount(int from, int to, const char* to_path) {
  return ::syscall(SYS_move_mount, from, "", to, to_path, kMoveFromEmptyPath) == 0;
}
inline bool mount_setattr(int dir, const char* path, unsigned flags,
                          const MountAttributes& attributes) {
  return ::syscall(SYS_mount_setattr, dir, path, flags, &attributes, sizeof(attributes)) == 0;
}
inline UniqueFd fsopen(const char* type) {
  constexpr unsigned kCloexec = 1;  // FSOPEN_CLOEXEC
  return fd_of(::syscall(SYS_fsopen, type, kCloexec));
}
inline bool fsconfig_string(int fs, const char* key, const char* value) {
  constexpr unsigned kSetString = 1;  // FSCONFIG_SET_STRING
  return ::syscall(SYS_fsconfig, fs, kSetString, key, value, 0) == 0;
}
inline bool fsconfig_flag(int fs, const char* key) {
  constexpr unsigned kSetFlag = 0;  // FSCONFIG_SET_FLAG
  return ::syscall(SYS_fsconfig, fs, kSetFlag, key, nullptr, 0) == 0;
}
inline bool fsconfig_create(int fs) {
  constexpr unsigned kCreate = 6;  // FSCONFIG_CMD_CREATE
  return ::syscall(SYS_fsconfig, fs, kCreate, nullptr, nullptr, 0) == 0;
}
inline UniqueFd fsmount(int fs, std::uint64_t attributes) {
  constexpr unsigned kCloexec = 1;  // FSMOUNT_CLOEXEC
  return fd_of(::syscall(SYS_fsmount, fs, kCloexec, attributes));
}
inline UniqueFd openat2(int dir, const char* path, std::uint64_t flags, std::uint64_t resolve) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = resolve;
  return fd_of(::syscall(SYS_openat2, dir, path, &how, sizeof(how)));
}

}  // namespace glovebox::host::probe
