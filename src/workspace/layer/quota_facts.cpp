#include "base/file.h"
#include "launch/loop_image.h"
#include "workspace/layer/image.h"
#include "workspace/layer/quota.h"

#include <cerrno>
#include <cstdio>

#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace glovebox::workspace {
namespace {

Result<std::uint64_t> available_memory() {
  TRY(const std::string text, read_file("/proc/meminfo"));
  constexpr std::string_view kKey = "MemAvailable:";
  const std::size_t at = text.find(kKey);
  unsigned long long kilobytes = 0;
  if (at == std::string::npos ||
      std::sscanf(text.c_str() + at + kKey.size(), "%llu", &kilobytes) != 1) {
    return fail(Code::Os, "/proc/meminfo does not say how much memory is available");
  }
  return kilobytes << 10U;
}

bool is_at_least(int major, int minor) {
  utsname system{};
  int have_major = 0;
  int have_minor = 0;
  if (::uname(&system) != 0 ||
      std::sscanf(system.release, "%d.%d", &have_major, &have_minor) != 2) {
    return false;
  }
  return have_major > major || (have_major == major && have_minor >= minor);
}

}  // namespace

Result<QuotaFacts> read_quota_facts(const std::string& layer_root) {
  QuotaFacts facts;
  facts.is_root = ::geteuid() == 0;
  facts.has_loop_devices = launch::has_loop_devices();
  facts.has_mkfs_ext4 = find_mkfs() != nullptr;
  TRY(facts.memory_available, available_memory());
  struct statvfs disk{};
  if (::statvfs(layer_root.c_str(), &disk) != 0) return fail_os(errno, "{}", layer_root);
  facts.layer_filesystem_free = disk.f_bavail * disk.f_frsize;
  facts.has_overlay_on_tmpfs = is_at_least(6, 6);
  return facts;
}

}  // namespace glovebox::workspace
