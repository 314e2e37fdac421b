// What this host is and what the caller may do on it, as a value.
//
// Planning reads facts and nothing else of the host, so a plan can be made and tested for any host.
// Reading them is cheap (a few dozen system calls) because every run does it. Facts do not prove
// that a feature works: a launch step that fails says so and ends the launch, and `glovebox doctor`
// (probe.h) tries each feature for real.
#pragma once

#include "base/result.h"
#include "host/cgroup_facts.h"
#include "host/path_facts.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace glovebox::host {

// Root: boxes get an unprivileged uid of their own, idmapped mounts and cgroups.
// User: boxes run as the caller, in a user namespace that the caller may make.
enum class Tier : std::uint8_t { Root, User };

// A top-level name of the system view: a directory, or a link as on merged-/usr systems.
struct SystemEntry {
  std::string name;         // "bin"
  std::string link_target;  // "usr/bin"; empty for a directory
  friend bool operator==(const SystemEntry&, const SystemEntry&) = default;
};

// A file that tells programs how names are looked up. A link as it is; its target may lie anywhere.
struct NameFile {
  std::string path;         // "/etc/resolv.conf"
  std::string link_target;  // empty for a file
  friend bool operator==(const NameFile&, const NameFile&) = default;
};

// A name in /proc that is not a process's, and no link.
struct ProcEntry {
  std::string name;
  enum class Kind : std::uint8_t { File, Directory } kind = Kind::File;
  friend bool operator==(const ProcEntry&, const ProcEntry&) = default;
};

struct HostFacts {
  Tier tier = Tier::User;
  uid_t uid = 65534;
  gid_t gid = 65534;
  int landlock_abi = 0;  // 0: the kernel has none
  std::uint64_t memory_bytes = 0;
  std::uint64_t open_files_hard = 0;  // the caller's hard RLIMIT_NOFILE
  std::uint64_t stack_hard = 0;
  std::uint64_t pending_signals = 0;    // the caller's hard RLIMIT_SIGPENDING
  std::uint64_t inotify_instances = 0;  // what the caller's user namespace allows; 0: no inotify
  std::uint64_t inotify_watches = 0;
  std::vector<ProcEntry> proc;       // what /proc has besides processes
  std::vector<SystemEntry> system;   // usr, etc, bin, sbin, lib*, as far as they exist
  std::vector<NameFile> name_files;  // resolv.conf, hosts, nsswitch.conf, as far as they exist
  CgroupFacts cgroups;

  friend bool operator==(const HostFacts&, const HostFacts&) = default;
};

std::string_view to_text(Tier tier);

// Reads the facts of this host for the calling process.
Result<HostFacts> read_facts();

}  // namespace glovebox::host
