#include "host/cgroup_facts.h"

#include "base/file.h"

#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace glovebox::host {
namespace {

using OwnCgroups = std::map<std::string, std::string, std::less<>>;

constexpr std::string_view kMount = "/sys/fs/cgroup";
constexpr const char* kControllers[] = {"memory", "pids", "cpu", "cpuacct"};

bool is_filesystem(const std::string& path, std::int64_t magic) {
  struct statfs info{};
  return ::statfs(path.c_str(), &info) == 0 && static_cast<std::int64_t>(info.f_type) == magic;
}

bool may_write(const std::string& path) {
  // euid, not ruid: the launch acts with the effective identity.
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// On version 1 the directory of a hierarchy is named by its controllers ("memory", "cpu,cpuacct");
// distributions add one link per controller, so the controller's own name leads there.
CgroupFacts version1(const OwnCgroups& own) {
  CgroupFacts facts;
  facts.version = CgroupVersion::V1;
  for (const char* controller : kControllers) {
    const auto path = own.find(controller);
    if (path == own.end()) continue;
    const std::string hierarchy = fmt::format("{}/{}", kMount, controller);
    if (!is_filesystem(hierarchy, CGROUP_SUPER_MAGIC)) continue;
    const std::string parent = path->second == "/" ? hierarchy : hierarchy + path->second;
    if (may_write(parent)) facts.parents.emplace(controller, parent);
  }
  return facts;
}

// Directories in which a box's cgroup could be made, best first: below the caller's own cgroup when
// that is the root (which alone may hold processes and pass controllers on), else beside it.
std::vector<std::string> version2_candidates(const std::string& own) {
  if (own == "/") return {std::string(kMount)};
  const std::string beside = own.substr(0, own.rfind('/'));
  return {std::string(kMount) + beside, std::string(kMount)};
}

CgroupFacts version2(const std::string& own) {
  CgroupFacts facts;
  facts.version = CgroupVersion::V2;
  for (const std::string& parent : version2_candidates(own)) {
    // Moving a process needs the right to write cgroup.procs of the common ancestor: the parent.
    if (!may_write(parent) || !may_write(parent + "/cgroup.procs")) continue;
    const auto enabled = read_file(parent + "/cgroup.subtree_control");
    if (!enabled) continue;
    std::string_view names = *enabled;
    while (!names.empty() && names.back() == '\n') names.remove_suffix(1);
    for (const std::string_view name : split(names, ' ')) {
      if (name == "memory" || name == "pids" || name == "cpu") {
        facts.parents.emplace(name, parent);
      }
    }
    if (facts.parents.empty()) continue;
    facts.parents.emplace("cpuacct", parent);
    return facts;
  }
  return facts;
}

}  // namespace

std::string_view to_text(CgroupVersion version) {
  switch (version) {
    case CgroupVersion::None: return "none";
    case CgroupVersion::V1: return "v1";
    case CgroupVersion::V2: return "v2";
  }
  return "unknown";
}

Result<OwnCgroups> parse_own_cgroups(std::string_view text) {
  OwnCgroups own;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  if (text.empty()) return own;
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos || line.substr(second + 1).substr(0, 1) != "/") {
      return fail(Code::Os, "/proc/self/cgroup has a line that is not understood: '{}'", line);
    }
    const std::string path(line.substr(second + 1));
    for (const std::string_view name : split(line.substr(first + 1, second - first - 1), ',')) {
      own.emplace(name, path);
    }
  }
  return own;
}

Result<CgroupFacts> read_cgroup_facts() {
  CgroupFacts none;
  none.why_not = "no cgroup filesystem is mounted at /sys/fs/cgroup";
  auto text = read_file("/proc/self/cgroup");
  if (!text) return none;
  TRY(const OwnCgroups own, parse_own_cgroups(*text));

  const bool unified = is_filesystem(std::string(kMount), CGROUP2_SUPER_MAGIC);
  CgroupFacts facts = unified && own.contains("") ? version2(own.find("")->second) : version1(own);
  if (!facts.parents.empty()) return facts;
  none.why_not = unified ? "no cgroup with memory and pids controllers is delegated to this user "
                           "(run below 'systemd-run --user --scope -p Delegate=yes', or as root)"
                         : "the cgroup v1 hierarchies below /sys/fs/cgroup are not writable for "
                           "this user (run as root, or have an administrator delegate a cgroup)";
  return none;
}

}  // namespace glovebox::host
