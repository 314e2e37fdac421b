// Whether the walls stand, each seen by an act that nothing else would refuse.
#include "probe.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

std::string status_value(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":\t")) return line.substr(name.size() + 2);
  }
  return "?";
}

// Standard input is a file of the host that everybody may write, opened for reading. Through /proc
// it can be opened again for writing: its mount and its mode allow that, and only Landlock, to
// which the file lies outside every tree of the box, does not.
bool landlock_refuses_reopening() {
  const int fd = open("/proc/self/fd/0", O_WRONLY | O_CLOEXEC);
  const int error = errno;
  if (fd >= 0) close(fd);
  return fd < 0 && error == EACCES;
}

// EACCES when Landlock refused what only Landlock refuses; 0 when it did not. Standard input must
// be a file with mode 0666.
int landlock_status(Args) {
  struct stat info{};
  if (fstat(0, &info) != 0) return errno;
  if (!S_ISREG(info.st_mode)) say("standard input is not a file");
  return landlock_refuses_reopening() ? EACCES : 0;
}

bool all_capabilities_empty() {
  for (const char* name : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
    if (status_value(name).find_first_not_of('0') != std::string::npos) return false;
  }
  return true;
}

bool root_is_read_only() {
  struct statvfs info{};
  return statvfs("/", &info) == 0 && (info.f_flag & ST_RDONLY) != 0;
}

bool usr_is_read_only() {
  struct statvfs info{};
  return statvfs("/usr", &info) == 0 &&
         (info.f_flag & (ST_RDONLY | ST_NOSUID)) == (ST_RDONLY | ST_NOSUID);
}

// Everything that must hold in every box, in one act: used where a test only needs to know whether
// the box is whole. Standard input must be a file with mode 0666. EBADE when a wall is missing;
// each missing one is named.
int check_walls(Args) {
  struct Wall {
    const char* name;
    bool stands;
  };
  const Wall walls[] = {
      {"no capabilities", all_capabilities_empty()},
      {"no_new_privs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1},
      {"seccomp filter", status_value("Seccomp") == "2"},
      {"landlock", landlock_refuses_reopening()},
      {"own session", getsid(0) == getpid()},
      {"own pid namespace", getppid() <= 1},
      {"not root", getuid() != 0},
      {"read-only root", root_is_read_only()},
      {"read-only nosuid /usr", usr_is_read_only()},
      {"no shadow", access("/etc/shadow", R_OK) != 0},
      {"no mount", syscall(SYS_mount, "tmpfs", "/tmp", "tmpfs", 0, nullptr) != 0},
      {"no user namespace", syscall(SYS_unshare, 0x10000000) != 0},
  };
  int missing = 0;
  for (const Wall& wall : walls) {
    if (wall.stands) continue;
    say("missing %s", wall.name);
    ++missing;
  }
  return missing == 0 ? 0 : EBADE;
}

int landlock_abi(Args) {
  const long abi =
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  say("abi %ld", abi);
  return met(abi);
}

constexpr Probe kProbes[] = {
    {"landlock_status", landlock_status, "tries what only Landlock refuses; EACCES is good"},
    {"landlock_abi", landlock_abi, "prints the Landlock ABI"},
    {"walls", check_walls, "checks every wall of the box and names the missing ones"},
};

}  // namespace

std::span<const Probe> wall_probes() { return kProbes; }

}  // namespace glovebox::probe
