// The line that fixes what is missing.
//
// What the host's files say about itself is read for this alone: a verdict comes from a trial, and
// the same failure has different causes on different hosts. Hints are a value and the choice is a
// pure function, so that every host's advice can be tested on any host.
#pragma once

#include "host/facts.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace glovebox::host::probe {

enum class Container : std::uint8_t { None, Docker, Podman };

struct Hints {
  Tier tier = Tier::User;
  std::string program = "/usr/local/bin/glovebox";
  Container container = Container::None;
  std::optional<long> apparmor_restrict;    // kernel.apparmor_restrict_unprivileged_userns
  std::optional<long> userns_clone;         // kernel.unprivileged_userns_clone
  std::optional<long> max_user_namespaces;  // user.max_user_namespaces
  bool in_user_namespace = false;           // not the initial one
  bool is_filtered = false;                 // a seccomp filter is on this process already
  bool proc_is_masked = false;              // something is mounted below /proc
  bool is_chrooted = false;                 // "/" is no mount of this namespace
  bool selinux_enforces = false;
  bool has_systemd = false;
  CgroupVersion mounted = CgroupVersion::None;  // what is at /sys/fs/cgroup
  std::string security_modules;                 // "lockdown,capability,landlock"; empty: unknown
};

Hints read_hints(Tier tier, std::string program);

// What kind of thing is missing.
enum class Lack : std::uint8_t {
  Facts,
  BoxUid,
  UidLease,
  SystemCall,  // a call that the kernel is too old for, or that something refuses
  UserNamespace,
  Mounts,
  Proc,
  Overlay,
  Idmap,
  Landlock,
  Notification,
  Cgroup,
  CgroupCpu,
  Swap,
  Kvm,
};

// One line per way to fix it, the likeliest first. `since` is the kernel that has the feature.
std::string remedy(Lack lack, int os_errno, std::string_view since, const Hints& hints);

}  // namespace glovebox::host::probe
