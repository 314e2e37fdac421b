// Who the process is, what it may, and what it was handed in its environment.
#include "probe.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <grp.h>
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

int print_ids(Args) {
  uid_t real_uid = 0, effective_uid = 0, saved_uid = 0;
  gid_t real_gid = 0, effective_gid = 0, saved_gid = 0;
  if (getresuid(&real_uid, &effective_uid, &saved_uid) != 0) return errno;
  if (getresgid(&real_gid, &effective_gid, &saved_gid) != 0) return errno;
  say("uid %u %u %u gid %u %u %u", real_uid, effective_uid, saved_uid, real_gid, effective_gid,
      saved_gid);
  return 0;
}

// EBADE when the process is in a group that is neither its own nor the overflow group.
int check_groups(Args) {
  std::vector<gid_t> groups(1024);
  const int count = getgroups(static_cast<int>(groups.size()), groups.data());
  if (count < 0) return errno;
  int extra = 0;
  for (int i = 0; i < count; ++i) {
    const gid_t group = groups[static_cast<std::size_t>(i)];
    say("group %u", group);
    if (group != getgid()) ++extra;
  }
  return extra == 0 ? 0 : EBADE;
}

int try_setgroups(Args) {
  const gid_t group = 0;
  return met(setgroups(1, &group));
}

int try_setuid(Args args) { return met(setuid(static_cast<uid_t>(number(args, 0)))); }
int try_setgid(Args args) { return met(setgid(static_cast<gid_t>(number(args, 0)))); }

std::string status_field(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name + ":")) continue;
    const auto start = line.find_first_not_of(" \t", name.size() + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "?";
}

// All five sets. EBADE unless every one is empty.
int check_caps(Args) {
  int full = 0;
  for (const char* name : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
    const std::string value = status_field(name);
    say("%s %s", name, value.c_str());
    if (value.find_first_not_of('0') != std::string::npos) ++full;
  }
  say("securebits %d", prctl(PR_GET_SECUREBITS));
  return full == 0 ? 0 : EBADE;
}

int try_capset(Args) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  data[0].permitted = data[0].effective = 1U << CAP_CHOWN;
  return met(syscall(SYS_capset, &header, data));
}

int check_no_new_privs(Args) {
  const int value = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
  say("no_new_privs %d", value);
  return value == 1 ? 0 : EBADE;
}

int check_seccomp_mode(Args) {
  const std::string mode = status_field("Seccomp");
  say("mode %s filters %s", mode.c_str(), status_field("Seccomp_filters").c_str());
  return mode == "2" ? 0 : EBADE;
}

int print_environment(Args) {
  for (char** entry = environ; *entry != nullptr; ++entry) say("env %s", *entry);
  return 0;
}

int print_status(Args args) {
  say("%s %s", text(args, 0), status_field(text(args, 0)).c_str());
  return 0;
}

int print_id_maps(Args) {
  for (const char* name : {"uid_map", "gid_map", "setgroups"}) {
    std::ifstream file(std::string("/proc/self/") + name);
    for (std::string line; std::getline(file, line);) say("%s %s", name, line.c_str());
  }
  return 0;
}

constexpr Probe kProbes[] = {
    {"ids", print_ids, "prints real, effective and saved ids"},
    {"groups", check_groups, "checks that there is no group but its own"},
    {"setgroups", try_setgroups, "joins group 0"},
    {"setuid", try_setuid, "ID: becomes another user"},
    {"setgid", try_setgid, "ID: becomes another group"},
    {"caps", check_caps, "checks that all five capability sets are empty"},
    {"capset", try_capset, "gives itself CAP_CHOWN"},
    {"nnp", check_no_new_privs, "checks no_new_privs"},
    {"seccomp_mode", check_seccomp_mode, "checks that a filter is on"},
    {"env", print_environment, "prints the environment"},
    {"status", print_status, "FIELD: prints a field of /proc/self/status"},
    {"id_maps", print_id_maps, "prints the id maps"},
};

}  // namespace

std::span<const Probe> identity_probes() { return kProbes; }

}  // namespace glovebox::probe
