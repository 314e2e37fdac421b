#include "host/facts.h"

#include "base/file.h"

#include <climits>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include <dirent.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

namespace glovebox::host {
namespace {

constexpr std::uint32_t kLandlockVersionFlag = 1;  // LANDLOCK_CREATE_RULESET_VERSION

// Root without these cannot give a box an identity of its own.
constexpr std::array<int, 3> kRootCapabilities{CAP_SYS_ADMIN, CAP_SETUID, CAP_SETGID};

bool holds_root_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return false;
  for (const int capability : kRootCapabilities) {
    const auto index = static_cast<std::size_t>(capability / 32);
    if ((data.at(index).effective & (1U << (capability % 32))) == 0) return false;
  }
  return true;
}

std::vector<SystemEntry> read_system_entries() {
  std::vector<SystemEntry> entries;
  for (const char* name : {"usr", "etc", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}) {
    const std::string path = fmt::format("/{}", name);
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0) continue;
    if (S_ISDIR(info.st_mode)) {
      entries.push_back({name, ""});
    } else if (S_ISLNK(info.st_mode)) {
      std::array<char, PATH_MAX> target;
      const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
      if (length > 0) entries.push_back({name, {target.data(), static_cast<std::size_t>(length)}});
    }
  }
  return entries;
}

std::vector<NameFile> read_name_files() {
  std::vector<NameFile> files;
  for (const char* path : {"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"}) {
    struct stat info{};
    if (::lstat(path, &info) != 0) continue;
    std::array<char, PATH_MAX> target;
    const ssize_t length =
        S_ISLNK(info.st_mode) ? ::readlink(path, target.data(), target.size()) : 0;
    if (S_ISREG(info.st_mode)) files.push_back({path, ""});
    if (length > 0) files.push_back({path, {target.data(), static_cast<std::size_t>(length)}});
  }
  return files;
}

std::uint64_t hard_limit(__rlimit_resource resource) {
  struct rlimit limit{};
  return ::getrlimit(resource, &limit) == 0 ? limit.rlim_max : 0;
}

// 0 when there is no such file.
std::uint64_t number_in(const std::string& path) {
  const auto text = read_file(path);
  return text ? std::strtoull(text->c_str(), nullptr, 10) : 0;
}

// The kernel lists processes last, so a host with many costs no more.
Result<std::vector<ProcEntry>> read_proc_entries() {
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
  if (!proc) return fail_os(errno, "open /proc");
  std::vector<ProcEntry> entries;
  while (const dirent* entry = ::readdir(proc.get())) {  // NOLINT: this stream is ours alone
    const std::string_view name = entry->d_name;
    if (name.front() >= '1' && name.front() <= '9') break;
    if (entry->d_type == DT_REG) entries.push_back({std::string(name), ProcEntry::Kind::File});
    if (entry->d_type == DT_DIR && name != "." && name != "..") {
      entries.push_back({std::string(name), ProcEntry::Kind::Directory});
    }
  }
  return entries;
}

}  // namespace

std::string_view to_text(Tier tier) { return tier == Tier::Root ? "root" : "user"; }

Result<HostFacts> read_facts() {
  HostFacts facts;
  facts.uid = ::geteuid();
  facts.gid = ::getegid();
  facts.tier = facts.uid == 0 ? Tier::Root : Tier::User;
  if (facts.tier == Tier::Root && !holds_root_capabilities()) {
    return fail(Code::Unsupported,
                "running as root without CAP_SYS_ADMIN, CAP_SETUID and CAP_SETGID: a box cannot be "
                "given an identity of its own (run as an ordinary user, or add the capabilities)");
  }
  const long abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, kLandlockVersionFlag);
  facts.landlock_abi = abi > 0 ? static_cast<int>(abi) : 0;

  struct sysinfo memory{};
  if (::sysinfo(&memory) != 0) return fail_os(errno, "sysinfo");
  facts.memory_bytes = std::uint64_t{memory.totalram} * memory.mem_unit;
  facts.open_files_hard = hard_limit(RLIMIT_NOFILE);
  facts.stack_hard = hard_limit(RLIMIT_STACK);
  facts.pending_signals = hard_limit(RLIMIT_SIGPENDING);
  // In a user namespace of a container the first says that there is no limit; the host's holds.
  facts.inotify_instances = std::min(number_in("/proc/sys/user/max_inotify_instances"),
                                     number_in("/proc/sys/fs/inotify/max_user_instances"));
  facts.inotify_watches = std::min(number_in("/proc/sys/user/max_inotify_watches"),
                                   number_in("/proc/sys/fs/inotify/max_user_watches"));
  TRY(facts.proc, read_proc_entries());
  facts.system = read_system_entries();
  facts.name_files = read_name_files();
  TRY(facts.cgroups, read_cgroup_facts());
  return facts;
}

}  // namespace glovebox::host
