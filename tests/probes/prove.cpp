// What a session shows of its box before it is used: each line "prove: held NAME" or
// "prove: open NAME", by the names that its report uses. Acts are chosen so that nothing is changed
// where they succeed, and so that something outside notices.
#include "probe.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

std::string status_line(const char* name) {
  std::ifstream file("/proc/self/status");
  const std::string start = std::string(name) + ":\t";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(start)) return line.substr(start.size());
  }
  return "?";
}

bool has_no_capabilities() {
  for (const char* name : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
    if (status_line(name).find_first_not_of('0') != std::string::npos) return false;
  }
  return true;
}

// One id, and no way to another.
bool has_one_identity() {
  unsigned long long inside = 0, outside = 0, count = 0;
  std::FILE* map = std::fopen("/proc/self/uid_map", "re");
  if (map == nullptr) return false;
  const int fields = std::fscanf(map, "%llu %llu %llu", &inside, &outside, &count);
  std::fclose(map);
  return fields == 3 && count == 1 && inside == getuid() && setuid(getuid() + 1) != 0;
}

bool connects(int family, const sockaddr* address, socklen_t size) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const timeval patience{2, 0};  // what swallows the attempt has not let it through
  const bool is_bounded = setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0;
  const bool connected = !is_bounded || connect(fd, address, size) == 0;
  close(fd);
  return connected;
}

bool reaches_port(long port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return connects(AF_INET, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

bool reaches_abstract(const char* name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path + 1, name, sizeof address.sun_path - 2);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + strlen(name));
  return connects(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), size);
}

// An empty signal asks whether the process is there.
bool sees_process(long pid) { return kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM; }

bool is_read_only(const char* path) {
  struct statvfs info{};
  return statvfs(path, &info) == 0 &&
         (info.f_flag & (ST_RDONLY | ST_NOSUID)) == (ST_RDONLY | ST_NOSUID);
}

bool can_open(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

bool refuses_calls() {
  return status_line("Seccomp") == "2" && syscall(SYS_unshare, CLONE_NEWUSER) != 0 &&
         syscall(SYS_bpf, 0, nullptr, 0) != 0 && syscall(SYS_io_uring_setup, 1, nullptr) != 0 &&
         ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0;
}

// Descriptors beside the first three, and the one that is reading the list.
int count_other_descriptors() {
  DIR* list = opendir("/proc/self/fd");
  if (list == nullptr) return -1;
  int others = 0;
  while (const dirent* entry = readdir(list)) {
    if (entry->d_name[0] == '.') continue;
    const int fd = std::stoi(entry->d_name);
    if (fd > 2 && fd != dirfd(list)) ++others;
  }
  closedir(list);
  return others;
}

// SECRET PORT ABSTRACT PID: a file, two sockets and a process outside. EBADE when something is
// open.
int prove_box(Args args) {
  struct Guarantee {
    const char* name;
    bool holds;
  };
  const Guarantee guarantees[] = {
      {"identity", has_one_identity()},
      {"capabilities", has_no_capabilities()},
      {"no-new-privileges", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1},
      {"network", !reaches_port(number(args, 1))},
      {"ipc", !reaches_abstract(text(args, 2))},
      {"processes", !sees_process(number(args, 3))},
      {"filesystem", !can_open(text(args, 0)) && is_read_only("/usr") &&
                         syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, nullptr) != 0},
      {"syscalls", refuses_calls()},
      {"keyrings", syscall(SYS_keyctl, 0, -3, 0) < 0},
      {"files-passed", count_other_descriptors() == 0},
  };
  int open = 0;
  for (const Guarantee& guarantee : guarantees) {
    say("%s %s", guarantee.holds ? "held" : "open", guarantee.name);
    if (!guarantee.holds) ++open;
  }
  return open == 0 ? 0 : EBADE;
}

constexpr Probe kProbes[] = {
    {"prove", prove_box, "shows the guarantees of a session's report: SECRET PORT ABSTRACT PID"},
};

}  // namespace

std::span<const Probe> proof_probes() { return kProbes; }

}  // namespace glovebox::probe
