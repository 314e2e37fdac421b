#include "base/file.h"
#include "doctor/kernel_calls.h"
#include "doctor/probe_trials.h"

#include <fmt/format.h>

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::host::probe {
namespace {

constexpr std::string_view kMemoryLimit = "67108864";

// A cgroup of a trial's own, removed by the destructor.
class TrialCgroup {
 public:
  TrialCgroup(std::string parent, const std::string& name)
      : parent_(std::move(parent)), path_(parent_ + "/" + name) {
    made_ = ::mkdir(path_.c_str(), 0755) == 0;
    if (made_) directory_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  TrialCgroup(const TrialCgroup&) = delete;
  TrialCgroup& operator=(const TrialCgroup&) = delete;
  ~TrialCgroup() {
    if (made_) ::rmdir(path_.c_str());  // the parent of the trial tries again
  }

  explicit operator bool() const { return made_ && directory_; }
  int fd() const { return directory_.get(); }
  const std::string& parent() const { return parent_; }

  // One control file. False with errno set.
  bool set(const char* file, std::string_view text) const {
    const auto done = write_control_at(directory_, file, text);
    if (!done) errno = done.error().os_errno;
    return done.has_value();
  }

 private:
  std::string parent_;
  std::string path_;
  bool made_ = false;
  UniqueFd directory_;
};

bool is_unified(const Stage& stage) { return stage.facts.cgroups.version == CgroupVersion::V2; }

using Use = std::function<Reply(const TrialCgroup&)>;

Reply in_cgroup(const Stage& stage, std::string_view controller, const Use& use) {
  const CgroupFacts& facts = stage.facts.cgroups;
  const auto parent = facts.parents.find(controller);
  if (parent == facts.parents.end()) {
    return wrong(facts.why_not.empty()
                     ? fmt::format("no {} controller is passed on to the caller", controller)
                     : "no cgroup that this caller can write has controllers",
                 Cause::Cgroup);
  }
  // When the doctor is killed, this process lives on for the moment it takes to remove the cgroup.
  ::prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
  const TrialCgroup cgroup(parent->second, stage.cgroup_name);
  if (!cgroup) return failed(fmt::format("make a cgroup in {}", parent->second), Cause::Cgroup);
  return use(cgroup);
}

// A process can be put there, the way a box is: by its own write, or by the clone.
std::optional<Reply> join(const TrialCgroup& cgroup, CgroupVersion version) {
  CloneRequest request;
  if (version == CgroupVersion::V2) {
    request.flags = CLONE_INTO_CGROUP;
    request.cgroup = cgroup.fd();
  }
  const Reply reply = in_clone(request, [&] {
    if (version == CgroupVersion::V1 && !cgroup.set("tasks", "0")) return failed("join the cgroup");
    return seen("joined");
  });
  if (reply.outcome == Outcome::Ok) return std::nullopt;
  return reply;
}

Reply joined(const Stage& stage, const TrialCgroup& cgroup) {
  const CgroupVersion version = stage.facts.cgroups.version;
  if (const auto problem = join(cgroup, version)) return *problem;
  return seen(fmt::format("cgroup {}, {}", to_text(version), cgroup.parent()));
}

bool limit_memory(const Stage& stage, const TrialCgroup& cgroup) {
  return cgroup.set(is_unified(stage) ? "memory.max" : "memory.limit_in_bytes", kMemoryLimit);
}

Reply watch_memory(const TrialCgroup& cgroup) {
  const UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const UniqueFd control(::openat(cgroup.fd(), "memory.oom_control", O_RDONLY | O_CLOEXEC));
  if (!event || !control) return failed("open memory.oom_control");
  if (!cgroup.set("cgroup.event_control", fmt::format("{} {}", event.get(), control.get()))) {
    return failed("write cgroup.event_control");
  }
  return seen("cgroup v1, event on memory.oom_control");
}

}  // namespace

// In the box's own user namespace the count starts with the box, so a limit of one refuses a second
// process whatever else the caller runs.
Reply try_process_limit(const Stage& stage) {
  if (const auto problem = take_launcher_identity(stage)) return *problem;
  return in_box(stage, 0, [] {
    const struct rlimit one{1, 1};
    if (::setrlimit(RLIMIT_NPROC, &one) != 0) return failed("set RLIMIT_NPROC");
    if (!drop_capabilities()) return failed("drop capabilities");
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(0);
    if (pid > 0) return wrong("a second process was not refused");
    return errno == EAGAIN ? seen("RLIMIT_NPROC in the box's own user namespace") : failed("fork");
  });
}

Reply try_memory_cgroup(const Stage& stage) {
  return in_cgroup(stage, "memory", [&](const TrialCgroup& cgroup) {
    if (!limit_memory(stage, cgroup)) return failed("set a memory limit");
    return joined(stage, cgroup);
  });
}

Reply try_swap_limit(const Stage& stage) {
  return in_cgroup(stage, "memory", [&](const TrialCgroup& cgroup) {
    if (!limit_memory(stage, cgroup)) return failed("set a memory limit");
    const char* file = is_unified(stage) ? "memory.swap.max" : "memory.memsw.limit_in_bytes";
    if (!cgroup.set(file, is_unified(stage) ? "0" : kMemoryLimit)) {
      return failed(fmt::format("write {}", file));
    }
    return seen(fmt::format("{} set", file));
  });
}

Reply try_memory_event(const Stage& stage) {
  return in_cgroup(stage, "memory", [&](const TrialCgroup& cgroup) {
    if (!is_unified(stage)) return watch_memory(cgroup);
    if (!cgroup.set("memory.oom.group", "1")) return failed("write memory.oom.group");
    return seen("cgroup v2, memory.oom.group set");
  });
}

Reply try_pids_cgroup(const Stage& stage) {
  return in_cgroup(stage, "pids", [&](const TrialCgroup& cgroup) {
    if (!cgroup.set("pids.max", "16")) return failed("set a pids limit");
    return joined(stage, cgroup);
  });
}

Reply try_cpu_cgroup(const Stage& stage) {
  return in_cgroup(stage, "cpu", [&](const TrialCgroup& cgroup) {
    const bool done = is_unified(stage) ? cgroup.set("cpu.max", "50000 100000")
                                        : cgroup.set("cpu.cfs_quota_us", "50000");
    if (!done) return failed("set a cpu quota");
    return joined(stage, cgroup);
  });
}

Reply try_cpu_accounting(const Stage& stage) {
  return in_cgroup(stage, "cpuacct", [&](const TrialCgroup& cgroup) {
    const char* file = is_unified(stage) ? "cpu.stat" : "cpuacct.usage";
    const auto text = read_file_at(BorrowedFd(cgroup.fd()), file);
    if (!text) errno = text.error().os_errno;
    if (!text) return failed(fmt::format("read {}", file));
    return joined(stage, cgroup);
  });
}

Reply try_clone_into_cgroup(const Stage& stage) {
  if (!is_unified(stage)) return not_applicable("only with a cgroup v2 of one's own");
  return in_cgroup(stage, "pids", [&](const TrialCgroup& cgroup) {
    const auto problem = join(cgroup, CgroupVersion::V2);
    return problem ? *problem : seen("CLONE_INTO_CGROUP");
  });
}

void remove_trial_cgroups(const Stage& stage) {
  for (const auto& [controller, parent] : stage.facts.cgroups.parents) {
    // Gone already, as a rule: the trial removes its own.
    (void)::rmdir(fmt::format("{}/{}", parent, stage.cgroup_name).c_str());
  }
}

}  // namespace glovebox::host::probe
