// System calls for the code between clone and exec: the kernel's own interface, nothing kept,
// nothing allocated. Where glibc 2.36 has no wrapper or its wrapper does more than the call, the
// raw call.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// Newer than Debian's headers, or in headers that clash with glibc's.
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 0x00000004
#endif
#ifndef MOVE_MOUNT_T_EMPTY_PATH
#define MOVE_MOUNT_T_EMPTY_PATH 0x00000040
#endif

namespace glovebox::launch::sys {

// A system call that returns -errno and leaves errno alone.
inline long raw(long number, long a = 0, long b = 0, long c = 0, long d = 0) noexcept {
#if defined(__x86_64__)
  long result = number;
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  return x0;
#endif
}

inline long address(const void* pointer) noexcept { return reinterpret_cast<long>(pointer); }

// struct mount_attr of mount_setattr(2).
struct MountAttributes {
  std::uint64_t set;
  std::uint64_t clear;
  std::uint64_t propagation;
  std::uint64_t userns_fd;
};

inline int open_tree(int dir, const char* path, unsigned flags) noexcept {
  return static_cast<int>(::syscall(SYS_open_tree, dir, path, flags));
}
inline bool move_mount(int from, const char* from_path, int to, const char* to_path,
                       unsigned flags) noexcept {
  return ::syscall(SYS_move_mount, from, from_path, to, to_path, flags) == 0;
}
inline bool mount_setattr(int dir, const char* path, unsigned flags,
                          const MountAttributes& attributes) noexcept {
  return ::syscall(SYS_mount_setattr, dir, path, flags, &attributes, sizeof(attributes)) == 0;
}
inline int fsopen(const char* type) noexcept {
  constexpr unsigned kCloexec = 1;  // FSOPEN_CLOEXEC
  return static_cast<int>(::syscall(SYS_fsopen, type, kCloexec));
}
inline bool fsconfig_string(int fs, const char* key, const char* value) noexcept {
  constexpr unsigned kSetString = 1;  // FSCONFIG_SET_STRING
  return ::syscall(SYS_fsconfig, fs, kSetString, key, value, 0) == 0;
}
inline bool fsconfig_create(int fs) noexcept {
  constexpr unsigned kCreate = 6;  // FSCONFIG_CMD_CREATE
  return ::syscall(SYS_fsconfig, fs, kCreate, nullptr, nullptr, 0) == 0;
}
inline int fsmount(int fs, std::uint64_t attributes) noexcept {
  constexpr unsigned kCloexec = 1;  // FSMOUNT_CLOEXEC
  return static_cast<int>(::syscall(SYS_fsmount, fs, kCloexec, attributes));
}
inline bool pivot_root(const char* new_root, const char* put_old) noexcept {
  return ::syscall(SYS_pivot_root, new_root, put_old) == 0;
}
inline int openat2(int dir, const char* path, std::uint64_t flags, std::uint64_t resolve) noexcept {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = resolve;
  return static_cast<int>(::syscall(SYS_openat2, dir, path, &how, sizeof(how)));
}
inline bool close_range(unsigned first, unsigned last) noexcept {
  return ::syscall(SYS_close_range, first, last, 0) == 0;
}

// Closes and keeps errno, for the way out after a failure.
inline void close_quietly(int fd) noexcept {
  const int kept = errno;
  if (fd >= 0) ::close(fd);
  errno = kept;
}

}  // namespace glovebox::launch::sys
