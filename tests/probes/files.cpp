// Acts on files by path: each opens, changes or looks at one thing.
#include "probe.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

int open_and_close(const char* path, int flags, mode_t mode = 0644) {
  const int fd = open(path, flags | O_CLOEXEC, mode);
  if (fd < 0) return errno;
  close(fd);
  return 0;
}

// Prints the first bytes as text, so that a test can look for its canary in them.
int try_read(Args args) {
  const int fd = open(text(args, 0), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  char bytes[4096];
  const ssize_t count = read(fd, bytes, sizeof bytes - 1);
  if (count < 0) return errno;
  for (ssize_t i = 0; i < count; ++i) {
    if (bytes[i] == '\0') bytes[i] = '\n';
  }
  bytes[count] = '\0';
  say("read %zd bytes: %s", count, bytes);
  return 0;
}

int try_write(Args args) {
  const int fd = open(text(args, 0), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const char* bytes = text_or(args, 1, "overwritten by a probe\n");
  return met(write(fd, bytes, std::strlen(bytes)));
}

int try_create(Args args) {
  const int fd = open(text(args, 0), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return errno;
  const char* bytes = text_or(args, 1, "made by a probe\n");
  return met(write(fd, bytes, std::strlen(bytes)));
}

int try_open_write(Args args) { return open_and_close(text(args, 0), O_WRONLY); }
int try_truncate(Args args) { return met(truncate(text(args, 0), 0)); }
int try_unlink(Args args) { return met(unlink(text(args, 0))); }
int try_rename(Args args) { return met(rename(text(args, 0), text(args, 1))); }
int try_mkdir(Args args) { return met(mkdir(text(args, 0), 0755)); }
int try_rmdir(Args args) { return met(rmdir(text(args, 0))); }
int try_symlink(Args args) { return met(symlink(text(args, 0), text(args, 1))); }
int try_link(Args args) { return met(link(text(args, 0), text(args, 1))); }
int try_mkfifo(Args args) { return met(mkfifo(text(args, 0), 0600)); }

int try_chmod(Args args) { return met(chmod(text(args, 0), static_cast<mode_t>(number(args, 1)))); }

int try_chown(Args args) {
  return met(chown(text(args, 0), static_cast<uid_t>(number(args, 1)),
                   static_cast<gid_t>(number(args, 1))));
}

int try_utimes(Args args) { return met(utimensat(AT_FDCWD, text(args, 0), nullptr, 0)); }

int try_setxattr(Args args) { return met(setxattr(text(args, 0), "user.glovebox", "probe", 5, 0)); }

int try_stat(Args args) {
  struct stat info{};
  if (lstat(text(args, 0), &info) != 0) return errno;
  say("mode=%o uid=%u gid=%u size=%lld", info.st_mode, info.st_uid, info.st_gid,
      static_cast<long long>(info.st_size));
  return 0;
}

// Prints every entry of a directory, one line each.
int try_list(Args args) {
  DIR* dir = opendir(text(args, 0));
  if (dir == nullptr) return errno;
  errno = 0;
  while (const dirent* entry = readdir(dir)) {
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    say("entry %s", entry->d_name);
  }
  const int error = errno;
  closedir(dir);
  return error;
}

int try_readlink(Args args) {
  char target[4096];
  const ssize_t length = readlink(text(args, 0), target, sizeof target - 1);
  if (length < 0) return errno;
  target[length] = '\0';
  say("target %s", target);
  return 0;
}

// Set-group-ID on a file that its group may not execute stays when it is written, and an access
// list lets the group execute it afterwards. `fd` was opened with such a mode. Whether it has
// content and the bit at the end.
bool keeps_set_group(int fd) {
  struct __attribute__((packed)) AccessList {
    std::uint32_t version = 2;
    struct __attribute__((packed)) {
      std::uint16_t tag;
      std::uint16_t rights;
      std::uint32_t id = 0xffffffff;
    } entries[3] = {
        {.tag = 0x01, .rights = 7}, {.tag = 0x04, .rights = 5}, {.tag = 0x20, .rights = 5}};
  } list;
  struct stat info{};
  if (fd < 0 || write(fd, "#!/bin/sh\nid\n", 13) != 13) return false;
  const int widened = fsetxattr(fd, "system.posix_acl_access", &list, sizeof list, 0);
  if (fstat(fd, &info) != 0) return false;
  say("access list %d mode %o", widened, info.st_mode);
  return info.st_size > 0 && (info.st_mode & S_ISGID) != 0;
}

bool leave_set_group(const std::string& path) {
  constexpr mode_t kMode = 02705;
  umask(0);
  open_how how{};
  how.flags = O_RDWR | O_CREAT | O_CLOEXEC;
  how.mode = kMode;
  const int fds[] = {
      open((path + "1").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode),
      creat((path + "2").c_str(), kMode),
      static_cast<int>(syscall(SYS_openat2, AT_FDCWD, (path + "3").c_str(), &how, sizeof how)),
      open(path.substr(0, path.rfind('/')).c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, kMode)};
  bool kept = false;
  for (const int fd : fds) kept |= keeps_set_group(fd);
  return kept;
}

// Gives PATH content and the setuid and setgid bits, by every call that can set them: what a box
// leaves in a shared tree must not raise a user's rights outside. 0 when both are there at the
// end.
int try_setuid_file(Args args) {
  const char* path = text(args, 0);
  constexpr mode_t kMode = 06755;
  if (leave_set_group(std::string(path) + "-group")) return 0;
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, kMode);
  if (fd < 0) fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
  if (fd < 0) return errno;
  if (write(fd, "#!/bin/sh\nid\n", 13) != 13) return errno;
  const long by_path = chmod(path, kMode);
  const long by_fd = fchmod(fd, kMode);
  const long by_at = fchmodat(AT_FDCWD, path, kMode, 0);
  const long by_at2 = syscall(452 /*fchmodat2*/, AT_FDCWD, path, kMode, 0);
  struct stat info{};
  if (fstat(fd, &info) != 0) return errno;
  say("chmod %ld fchmod %ld fchmodat %ld fchmodat2 %ld mode %o", by_path, by_fd, by_at, by_at2,
      info.st_mode);
  return info.st_size > 0 && (info.st_mode & (S_ISUID | S_ISGID)) != 0 ? 0 : EPERM;
}

constexpr Probe kProbes[] = {
    {"read", try_read, "PATH: opens for reading and prints the first bytes"},
    {"write", try_write, "PATH [TEXT]: writes into an existing file"},
    {"open_write", try_open_write, "PATH: opens for writing, writes nothing"},
    {"create", try_create, "PATH [TEXT]: makes a file that must not exist"},
    {"truncate", try_truncate, "PATH: cuts a file to nothing"},
    {"unlink", try_unlink, "PATH: removes a file"},
    {"rename", try_rename, "FROM TO: renames"},
    {"mkdir", try_mkdir, "PATH: makes a directory"},
    {"rmdir", try_rmdir, "PATH: removes a directory"},
    {"symlink", try_symlink, "TARGET PATH: makes a symlink"},
    {"link", try_link, "FROM TO: makes a hard link"},
    {"mkfifo", try_mkfifo, "PATH: makes a named pipe"},
    {"chmod", try_chmod, "PATH MODE: changes the mode"},
    {"chown", try_chown, "PATH ID: gives a file to another user and group"},
    {"utimes", try_utimes, "PATH: sets the times to now"},
    {"setxattr", try_setxattr, "PATH: sets user.glovebox"},
    {"stat", try_stat, "PATH: prints mode, owner and size without following a link"},
    {"list", try_list, "PATH: prints the entries of a directory"},
    {"readlink", try_readlink, "PATH: prints where a link leads"},
    {"setuid_file", try_setuid_file, "PATH: makes a setuid and setgid file, by every call"},
};

}  // namespace

std::span<const Probe> file_probes() { return kProbes; }

}  // namespace glovebox::probe
