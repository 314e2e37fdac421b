// Open files that a process inherits: what they are and what can be reached through them.
#include "probe.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

std::string link_text(const std::string& path) {
  char target[4096];
  const ssize_t length = readlink(path.c_str(), target, sizeof target - 1);
  return length < 0 ? std::string("?") : std::string(target, static_cast<std::size_t>(length));
}

// One line for each descriptor: number, target, kind, and whether ".." can be opened through it.
// EBADE when there is a descriptor other than 0, 1, 2 or one that leads to a directory.
int list_fds(Args) {
  DIR* dir = opendir("/proc/self/fd");
  if (dir == nullptr) return errno;
  int problems = 0;
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] == '.') continue;
    const int fd = std::atoi(entry->d_name);
    if (fd == dirfd(dir)) continue;
    struct stat info{};
    if (fstat(fd, &info) != 0) return errno;
    const int above = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const std::string target = link_text(std::string("/proc/self/fd/") + entry->d_name);
    say("fd %d %s mode %o above %s", fd, target.c_str(), info.st_mode & S_IFMT,
        above >= 0 ? "open" : "shut");
    if (fd > 2 || above >= 0 || S_ISDIR(info.st_mode)) ++problems;
    if (above >= 0) close(above);
  }
  closedir(dir);
  return problems == 0 ? 0 : EBADE;
}

// Asks the kernel, not /proc: which descriptors up to the limit are open.
int count_fds(Args) {
  int open_count = 0;
  for (int fd = 0; fd < 8192; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) continue;
    say("open %d", fd);
    ++open_count;
  }
  return open_count <= 3 ? 0 : EBADE;
}

// The system call itself reports "(unreachable)..." when the directory is outside the root.
int check_cwd(Args) {
  char path[4096];
  const long length = syscall(SYS_getcwd, path, sizeof path);
  if (length < 0) return errno;
  say("cwd %s", path);
  return path[0] == '/' ? 0 : EBADE;
}

// Climbs with ".." from the working directory and from "/"; EBADE unless both end at this root.
int climb(Args) {
  struct stat root{}, reached{};
  if (stat("/", &root) != 0) return errno;
  std::string path = ".";
  for (int i = 0; i < 64; ++i) path += "/..";
  if (stat(path.c_str(), &reached) != 0) return errno;
  return root.st_dev == reached.st_dev && root.st_ino == reached.st_ino ? 0 : EBADE;
}

// Opens descriptor FD again through /proc with other rights: "r", "w" or "rw". With "w" it writes.
int try_reopen(Args args) {
  const std::string path = std::string("/proc/self/fd/") + text(args, 0);
  const std::string mode = text(args, 1);
  const int flags = mode == "r" ? O_RDONLY : mode == "w" ? O_WRONLY : O_RDWR;
  const int fd = open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno;
  if (mode != "r") return met(pwrite(fd, "OWNED", 5, 0));
  char bytes[256];
  const ssize_t count = pread(fd, bytes, sizeof bytes - 1, 0);
  if (count < 0) return errno;
  bytes[count] = '\0';
  say("reopened: %s", bytes);
  return 0;
}

// Copies standard input to standard output without a line of its own, and says nothing until the
// end, so that a test can compare bytes.
int copy_stdin(Args) {
  char bytes[65536];
  for (;;) {
    const ssize_t count = read(0, bytes, sizeof bytes);
    if (count < 0) return errno;
    if (count == 0) return 0;
    for (ssize_t done = 0; done < count;) {
      const ssize_t written = write(1, bytes + done, static_cast<std::size_t>(count - done));
      if (written < 0) return errno;
      done += written;
    }
  }
}

int read_stdin(Args) {
  char bytes[4096];
  const ssize_t count = read(0, bytes, sizeof bytes);
  if (count < 0) return errno;
  say("stdin gave %zd bytes", count);
  return 0;
}

int write_stderr(Args args) {
  const char* words = text(args, 0);
  return met(write(2, words, std::strlen(words)));
}

constexpr Probe kProbes[] = {
    {"list_fds", list_fds, "checks that only 0, 1, 2 are open and none is a directory"},
    {"count_fds", count_fds, "asks the kernel for every number up to 8192"},
    {"getcwd", check_cwd, "prints the working directory, which must be reachable"},
    {"climb", climb, "checks that \"..\" ends at the root of the box"},
    {"reopen", try_reopen, "FD r|w|rw: opens a descriptor again with other rights"},
    {"copy_stdin", copy_stdin, "copies stdin to stdout"},
    {"read_stdin", read_stdin, "reads once from stdin"},
    {"write_stderr", write_stderr, "TEXT: writes to stderr"},
};

}  // namespace

std::span<const Probe> descriptor_probes() { return kProbes; }

}  // namespace glovebox::probe
