#include "launch/cgroup.h"

#include "base/file.h"
#include "base/quantity.h"
#include "host/cgroup_facts.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <memory>
#include <set>

#include <dirent.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::launch {
namespace {

constexpr std::string_view kPrefix = "glovebox-";
constexpr std::uint64_t kCpuPeriodUs = 100'000;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// When a process was started, in clock ticks since the machine was, or nothing when that cannot be
// read. No clock that can be set is in it.
std::optional<std::uint64_t> start_of(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/stat", pid));
  if (!text) return std::nullopt;
  // The 22nd field (proc(5)).
  std::size_t at = text->rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text->find(' ', at + 1);
  if (at == std::string::npos) return std::nullopt;
  std::uint64_t ticks = 0;
  std::from_chars(text->data() + at + 1, text->data() + text->size(), ticks);
  return ticks;
}

// Names the process that owns it: a number that another process has got since is told by the start.
std::string cgroup_name(std::uint64_t serial) {
  static const std::optional<std::uint64_t> start = start_of(::getpid());
  if (!start) return fmt::format("{}{}-{}", kPrefix, ::getpid(), serial);
  return fmt::format("{}{}-{}-{}", kPrefix, ::getpid(), *start, serial);
}

struct Owner {
  pid_t pid = 0;
  std::optional<std::uint64_t> start{};

  bool is_gone() const {
    if (::kill(pid, 0) != 0 && errno == ESRCH) return true;
    const auto started = start ? start_of(pid) : std::nullopt;
    return started && *started != *start;
  }
};

// The process in "glovebox-<pid>-<start>-<n>" or "glovebox-<pid>-<n>", or nothing for a name that
// is not ours.
std::optional<Owner> owner_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* const last = name.data() + name.size();
  Owner owner;
  const auto [end, problem] = std::from_chars(name.data() + kPrefix.size(), last, owner.pid);
  if (problem != std::errc() || end == last || *end != '-' || owner.pid <= 0) return std::nullopt;
  std::uint64_t start = 0;
  const auto [rest, other] = std::from_chars(end + 1, last, start);
  if (other == std::errc() && rest != last && *rest == '-') owner.start = start;
  return owner;
}

// The number after `key` in "key value" lines.
std::uint64_t keyed_value(std::string_view text, std::string_view key) {
  std::size_t at = 0;
  while ((at = text.find(key, at)) != std::string_view::npos) {
    const bool line_start = at == 0 || text[at - 1] == '\n';
    const std::size_t after = at + key.size();
    if (line_start && after < text.size() && text[after] == ' ') {
      std::uint64_t value = 0;
      const std::string_view rest = text.substr(after + 1);
      std::from_chars(rest.data(), rest.data() + rest.size(), value);
      return value;
    }
    at = after;
  }
  return 0;
}

std::optional<std::uint64_t> number(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  std::uint64_t value = 0;
  const auto result = std::from_chars(text->data(), text->data() + text->size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

// The text of an events file through a descriptor that stays open: reading it is also what makes
// poll wait for the next change (kernfs hands every new descriptor one change to begin with).
std::string read_events(const UniqueFd& fd) {
  char text[512];
  const ssize_t size = ::pread(fd.get(), text, sizeof(text), 0);
  return {text, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

// Whether a living launcher keeps it, wherever that runs. What cannot be looked at may be kept.
bool is_held(BorrowedFd parent, const std::string& name) {
  const auto directory = open_file_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!directory) return directory.error().os_errno != ENOENT;
  return ::flock(directory->get(), LOCK_EX | LOCK_NB) != 0;
}

// Removes what a killed launcher left. False when it must be looked at again: processes of its are
// still ending.
bool remove_leftover(BorrowedFd parent, const std::string& name) {
  if (is_held(parent, name)) return false;
  return ::unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR) == 0 || errno != EBUSY;
}

// Removes what killed launchers left. Returns what must be looked at again.
std::vector<std::string> sweep(const UniqueFd& parent) {
  std::vector<std::string> busy;
  const int fd = ::openat(parent.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return busy;
  const std::unique_ptr<DIR, CloseDirectory> directory(::fdopendir(fd));
  if (!directory) {
    ::close(fd);
    return busy;
  }
  while (const dirent* entry = ::readdir(directory.get())) {
    const auto owner = owner_of(entry->d_name);
    if (!owner || !owner->is_gone()) continue;
    if (!remove_leftover(parent, entry->d_name)) busy.emplace_back(entry->d_name);
  }
  return busy;
}

}  // namespace

Result<Cgroup> Cgroup::create(const plan::PlanView& plan, std::uint64_t serial) {
  Cgroup cgroup;
  cgroup.unified_ =
      plan.header().cgroup_version == static_cast<std::uint32_t>(host::CgroupVersion::V2);
  cgroup.name_ = cgroup_name(serial);
  for (const plan::FlatController& controller : plan.controllers()) {
    const std::string parent = plan.text(controller.parent);
    Part part{plan.text(controller.name), {}, {}};
    TRY(part.parent, open_file(parent, O_RDONLY | O_DIRECTORY));
    const bool first = !cgroup.unified_ || cgroup.parts_.empty();
    if (first && ::mkdirat(part.parent.get(), cgroup.name_.c_str(), 0755) != 0) {
      return fail_os(errno, "make cgroup {}/{}", parent, cgroup.name_);
    }
    // Recorded before it is opened: from here on the destructor removes it.
    const UniqueFd* above = &cgroup.parts_.emplace_back(std::move(part)).parent;
    TRY(cgroup.parts_.back().directory,
        open_file_at(*above, cgroup.name_, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    // Every process that can open the directory can lock it, so a lock that is not had refuses no
    // box: the one that is in the way keeps the directory as well.
    (void)::flock(cgroup.parts_.back().directory.get(), LOCK_SH | LOCK_NB);
  }
  TRY_VOID(cgroup.set_limits(plan));
  if (!cgroup.unified_) TRY_VOID(cgroup.open_join_fds());
  return cgroup;
}

Cgroup::~Cgroup() { remove(); }

const Cgroup::Part* Cgroup::find(std::string_view controller) const {
  for (const Part& part : parts_) {
    if (part.controller == controller) return &part;
  }
  return nullptr;
}

std::optional<std::string> Cgroup::read(std::string_view controller, const char* file) const {
  const Part* part = find(controller);
  if (part == nullptr) return std::nullopt;
  auto text = read_file_at(part->directory, file);
  if (!text) return std::nullopt;
  return *std::move(text);
}

Result<void> Cgroup::set(std::string_view controller, const char* file, std::uint64_t value) const {
  const Part* part = find(controller);
  if (part == nullptr) return fail(Code::Invalid, "no {} controller in the plan", controller);
  auto done = write_control_at(part->directory, file, fmt::format("{}", value));
  if (!done) {
    Error error = std::move(done).error();
    error.message = fmt::format("cgroup limit {}: {}", controller, error.message);
    return tl::unexpected(std::move(error));
  }
  return {};
}

// Swap counts as memory on version 1 (memsw), so equal limits mean none; version 2 limits it alone.
Result<void> Cgroup::set_limits(const plan::PlanView& plan) {
  const plan::FlatHeader& h = plan.header();
  if (h.memory_bytes != 0 && unified_) {
    TRY_VOID(set("memory", "memory.max", h.memory_bytes));
    TRY_VOID(set("memory", "memory.swap.max", 0));
    TRY_VOID(set("memory", "memory.oom.group", 1));
  } else if (h.memory_bytes != 0) {
    TRY_VOID(set("memory", "memory.limit_in_bytes", h.memory_bytes));
    TRY_VOID(set("memory", "memory.memsw.limit_in_bytes", h.memory_bytes));
  }
  if (h.pids != 0) TRY_VOID(set("pids", "pids.max", h.pids));
  if (h.cpus_milli == 0) return {};
  const std::uint64_t quota = std::max<std::uint64_t>(h.cpus_milli * kCpuPeriodUs / 1000, 1000);
  if (!unified_) return set("cpu", "cpu.cfs_quota_us", quota);  // the period's default is 100 ms
  const Part* part = find("cpu");
  if (part == nullptr) return fail(Code::Invalid, "no cpu controller in the plan");
  return write_control_at(part->directory, "cpu.max", fmt::format("{} {}", quota, kCpuPeriodUs));
}

Result<void> Cgroup::open_join_fds() {
  for (const Part& part : parts_) {
    TRY(UniqueFd tasks, open_file_at(part.directory, "tasks", O_WRONLY));
    join_numbers_.push_back(tasks.get());
    joins_.push_back(std::move(tasks));
    TRY(UniqueFd back, open_file_at(part.parent, "tasks", O_WRONLY));
    leave_numbers_.push_back(back.get());
    joins_.push_back(std::move(back));
  }
  return {};
}

int Cgroup::clone_into_fd() const {
  return unified_ && !parts_.empty() ? parts_.front().directory.get() : -1;
}

Result<void> Cgroup::watch() {
  if (const Part* pids = find("pids")) {
    TRY(pids_event_, open_file_at(pids->directory, "pids.events", O_RDONLY));
    (void)read_events(pids_event_);
  }
  const Part* memory = find("memory");
  if (memory == nullptr) return {};
  if (unified_) {
    TRY(memory_event_, open_file_at(memory->directory, "memory.events", O_RDONLY));
    (void)read_events(memory_event_);
    return {};
  }
  memory_event_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!memory_event_) return fail_os(errno, "eventfd");
  TRY(memory_control_, open_file_at(memory->directory, "memory.oom_control", O_RDONLY));
  return write_control_at(memory->directory, "cgroup.event_control",
                          fmt::format("{} {}", memory_event_.get(), memory_control_.get()));
}

std::optional<std::uint64_t> Cgroup::cpu_ns() const {
  if (!unified_) return number(read("cpuacct", "cpuacct.usage"));
  const auto text = read("cpuacct", "cpu.stat");
  if (!text) return std::nullopt;
  return keyed_value(*text, "usage_usec") * 1000;
}

CgroupCounts Cgroup::counts(Usage usage) const {
  CgroupCounts counts;
  if (memory_event_ && unified_) {
    counts.out_of_memory = keyed_value(read_events(memory_event_), "oom_kill") > 0;
  } else if (memory_event_) {
    // Version 1 tells at the moment when nothing more can be reclaimed, before anything is killed.
    std::uint64_t times = 0;
    counts.out_of_memory = ::read(memory_event_.get(), &times, sizeof(times)) == sizeof(times) ||
                           keyed_value(read_events(memory_control_), "oom_kill") > 0;
  }
  if (!memory_event_) {
    const char* file = unified_ ? "memory.events" : "memory.oom_control";
    counts.out_of_memory = keyed_value(read("memory", file).value_or(""), "oom_kill") > 0;
  }
  if (!pids_event_) {
    counts.pids_refused = keyed_value(read("pids", "pids.events").value_or(""), "max") > 0;
  }
  if (pids_event_) counts.pids_refused = keyed_value(read_events(pids_event_), "max") > 0;
  if (usage == Usage::Skip) return counts;
  const char* peak_file = unified_ ? "memory.peak" : "memory.max_usage_in_bytes";
  counts.peak_memory_bytes = number(read("memory", peak_file));
  counts.cpu_ns = cpu_ns();
  return counts;
}

CgroupCounts read_usage(const plan::CgroupPlan& plan, const std::string& name) {
  const bool unified = plan.version == host::CgroupVersion::V2;
  CgroupCounts counts;
  const auto read = [&](const plan::Controller& controller, const char* file) {
    const auto text = read_file(fmt::format("{}/{}/{}", controller.parent, name, file));
    return text ? std::optional<std::string>(*text) : std::nullopt;
  };
  for (const plan::Controller& controller : plan.controllers) {
    if (controller.name == "memory") {
      counts.memory_bytes =
          number(read(controller, unified ? "memory.current" : "memory.usage_in_bytes"));
      counts.peak_memory_bytes =
          number(read(controller, unified ? "memory.peak" : "memory.max_usage_in_bytes"));
    }
    if (controller.name == "cpuacct" && !unified) {
      counts.cpu_ns = number(read(controller, "cpuacct.usage"));
    }
  }
  if (unified && !plan.controllers.empty()) {
    const auto text = read(plan.controllers.front(), "cpu.stat");
    if (text) counts.cpu_ns = keyed_value(*text, "usage_usec") * 1000;
  }
  return counts;
}

bool Cgroup::remove() {
  joins_.clear();
  join_numbers_.clear();
  leave_numbers_.clear();
  bool gone = true;
  for (Part& part : parts_) {
    if (!part.parent) continue;
    part.directory.reset();
    if (::unlinkat(part.parent.get(), name_.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) {
      part.parent.reset();
    } else {
      gone = false;
    }
  }
  if (gone) parts_.clear();
  return gone;
}

void Cgroup::sweep_leftovers() const {
  // What still holds processes is found again by the next box.
  for (const Part& part : parts_) (void)sweep(part.parent);
}

void LeftoverCgroups::find(const host::CgroupFacts& facts) {
  std::set<std::string> parents;
  for (const auto& [controller, parent] : facts.parents) parents.insert(parent);
  for (const std::string& parent : parents) {
    auto opened = open_file(parent, O_RDONLY | O_DIRECTORY);
    if (!opened) continue;
    auto busy = sweep(*opened);
    if (!busy.empty()) places_.push_back({*std::move(opened), std::move(busy)});
  }
}

void LeftoverCgroups::remove() {
  for (Place& place : places_) {
    std::erase_if(place.names,
                  [&](const std::string& name) { return remove_leftover(place.parent, name); });
  }
  std::erase_if(places_, [](const Place& place) { return place.names.empty(); });
}

}  // namespace glovebox::launch
