// The cgroup of one box: made before it, removed after it.
//
// Version 1: one directory per controller; the command's process joins them itself, by writing "0"
// to each `tasks` file just before it executes. Moving oneself takes no lock that waits for the
// whole machine, moving another process does (up to 27 ms). init stays outside, so that the
// directories are empty as soon as init has reaped the command. Version 2: one directory; the box
// is cloned into it (CLONE_INTO_CGROUP).
//
// Leftovers of launchers that were killed are found by name ("glovebox-<pid>-<start>-<n>" with no
// such process any more) and removed by the next launcher. A launcher in another pid namespace is
// not seen by its number; that it lives is told by the lock (flock(2)) that it keeps.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "plan/flat_plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::launch {

// What the kernel has counted for a box.
struct CgroupCounts {
  bool out_of_memory = false;                 // the kernel killed something in it for memory
  bool pids_refused = false;                  // a fork was refused
  std::optional<std::uint64_t> memory_bytes;  // at the moment
  std::optional<std::uint64_t> peak_memory_bytes;
  std::optional<std::uint64_t> cpu_ns;
};

class Cgroup {
 public:
  // Makes the cgroup with its limits. `serial` makes the name unique within this process.
  static Result<Cgroup> create(const plan::PlanView& plan, std::uint64_t serial);

  Cgroup() = default;  // none: a box without controllers
  Cgroup(Cgroup&&) = default;
  Cgroup& operator=(Cgroup&&) = default;
  ~Cgroup();  // tries to remove what remove() has not removed

  const std::string& name() const { return name_; }

  // Version 1: the `tasks` files to join, and those of the launcher's own cgroups to go back to.
  // Empty otherwise.
  const std::vector<int>& join_fds() const { return join_numbers_; }
  const std::vector<int>& leave_fds() const { return leave_numbers_; }
  // Version 2: the directory to clone into. -1 otherwise.
  int clone_into_fd() const;

  // Descriptors that become ready (POLLIN, POLLPRI) when a limit is hit; -1 where there is none.
  // Opened on the first call, which happens while the box is already starting.
  Result<void> watch();
  int memory_event_fd() const { return memory_event_.get(); }
  int pids_event_fd() const { return pids_event_.get(); }

  // Reads what was counted. Only what is cheap or asked for: events always, usage with
  // `Usage::Read`.
  enum class Usage : std::uint8_t { Skip, Read };
  CgroupCounts counts(Usage usage) const;
  std::optional<std::uint64_t> cpu_ns() const;

  // Removes the directories; false while processes are still in them.
  bool remove();

  // Removes cgroups beside this one whose launcher is gone.
  void sweep_leftovers() const;

 private:
  struct Part {
    std::string controller;
    UniqueFd parent;
    UniqueFd directory;
  };
  const Part* find(std::string_view controller) const;
  std::optional<std::string> read(std::string_view controller, const char* file) const;
  Result<void> set(std::string_view controller, const char* file, std::uint64_t value) const;
  Result<void> set_limits(const plan::PlanView& plan);
  Result<void> open_join_fds();

  bool unified_ = false;
  std::string name_;
  std::vector<Part> parts_;
  std::vector<UniqueFd> joins_;
  std::vector<int> join_numbers_;
  std::vector<int> leave_numbers_;
  UniqueFd memory_event_;
  UniqueFd pids_event_;
  UniqueFd memory_control_;
};

// The same for every place where boxes of this host get cgroups: what a launcher does first. The
// boxes of one that was killed just now are still ending then, so what is not empty is kept in
// mind.
class LeftoverCgroups {
 public:
  void find(const host::CgroupFacts& facts);
  // Those of them that are empty by now.
  void remove();

 private:
  struct Place {
    UniqueFd parent;
    std::vector<std::string> names;
  };
  std::vector<Place> places_;
};

// What the kernel has counted so far for a box that another process started: reading needs no
// privilege. `name` is the cgroup's; what cannot be read is left out.
CgroupCounts read_usage(const plan::CgroupPlan& plan, const std::string& name);

}  // namespace glovebox::launch
