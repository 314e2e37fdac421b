#include "session/box/running_cgroup.h"

#include "base/file.h"
#include "host/cgroup_facts.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <poll.h>

namespace glovebox::session {
namespace {

constexpr std::string_view kPrefix = "glovebox-";  // of every cgroup that a launcher makes
constexpr std::uint64_t kCpuPeriodUs = 100'000;
constexpr std::uint64_t kLeastQuotaUs = 1000;

// The number of a process that a pidfd is of; -1 when it has ended.
Result<pid_t> pid_of(BorrowedFd process) {
  TRY(const std::string text, read_file(fmt::format("/proc/self/fdinfo/{}", process.get())));
  const std::size_t at = text.find("\nPid:");
  return at == std::string::npos ? -1 : static_cast<pid_t>(std::atoi(text.c_str() + at + 5));
}

bool has_ended(BorrowedFd process) {
  pollfd wait{process.get(), POLLIN, 0};
  return ::poll(&wait, 1, 0) != 0;
}

}  // namespace

Result<std::string> RunningCgroup::own_path(std::string_view controller) const {
  TRY(const pid_t pid, pid_of(init_));
  TRY(const std::string text, read_file(fmt::format("/proc/{}/cgroup", pid)));
  // Only then it was this process, and not the next one with its number.
  if (has_ended(init_)) return fail(Code::NotFound, "the box has ended");
  TRY(const auto paths, host::parse_own_cgroups(text));
  const bool unified = plan_.version == host::CgroupVersion::V2;
  const auto found = paths.find(unified ? std::string_view() : controller);
  if (found == paths.end())
    return fail(Code::Unsupported, "the box is in no {} cgroup", controller);
  return found->second;
}

Result<UniqueFd> RunningCgroup::open_controller(std::string_view controller) const {
  const auto known = std::ranges::find(plan_.controllers, controller, &plan::Controller::name);
  if (known == plan_.controllers.end()) {
    return fail(Code::Unsupported, "the box started without a {} cgroup", controller);
  }
  TRY(const std::string path, own_path(controller));
  const std::string name = std::filesystem::path(path).filename();
  if (!name.starts_with(kPrefix)) {
    return fail(Code::Unsupported, "the box is in no {} cgroup of its own", controller);
  }
  return open_file(fmt::format("{}/{}", known->parent, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

Result<void> RunningCgroup::lower_memory(std::uint64_t bytes) const {
  TRY(const UniqueFd directory, open_controller("memory"));
  const std::string value = std::to_string(bytes);
  if (plan_.version == host::CgroupVersion::V2) {
    return write_control_at(directory, "memory.max", value);
  }
  // Memory with swap may never be less than memory alone.
  TRY_VOID(write_control_at(directory, "memory.limit_in_bytes", value));
  return write_control_at(directory, "memory.memsw.limit_in_bytes", value);
}

Result<void> RunningCgroup::lower_pids(std::uint64_t count) const {
  TRY(const UniqueFd directory, open_controller("pids"));
  return write_control_at(directory, "pids.max", std::to_string(count + plan_.own_pids));
}

Result<void> RunningCgroup::lower_cpus(std::uint64_t milli) const {
  TRY(const UniqueFd directory, open_controller("cpu"));
  const std::uint64_t quota = std::max(milli * kCpuPeriodUs / 1000, kLeastQuotaUs);
  if (plan_.version == host::CgroupVersion::V2) {
    return write_control_at(directory, "cpu.max", fmt::format("{} {}", quota, kCpuPeriodUs));
  }
  return write_control_at(directory, "cpu.cfs_quota_us", std::to_string(quota));
}

}  // namespace glovebox::session
