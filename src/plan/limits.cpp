#include "base/quantity.h"
#include "plan/make_plan.h"
#include "plan/parts.h"

#include <algorithm>

#include <sys/resource.h>

namespace glovebox::plan {
namespace {

constexpr std::uint64_t kMinMemory = 1U << 20;  // less cannot even start a program
constexpr std::uint64_t kMinDisk = 64U << 10;
constexpr std::uint64_t kMinOpenFiles = 16;  // init and the loader of a program need some
constexpr std::uint64_t kMinSignals = 64;
constexpr std::uint64_t kMessageBytes = 800U << 10;  // the kernel's own default, also for root
// init, the one that makes the network and the one that takes the host's tree away (launch/child).
constexpr std::uint64_t kSetUpThreads = 3;
// The kernel treats a core limit of exactly one byte as "no dump, not even into a helper's pipe"
// (core(5)); a limit of zero does not stop a helper.
constexpr std::uint64_t kNoCore = 1;

Result<void> check_ranges(const Limits& limits) {
  if (limits.memory_bytes && *limits.memory_bytes < kMinMemory) {
    return fail(Code::Invalid, "a memory limit of {} is below {}, too little to start a program",
                bytes_to_text(*limits.memory_bytes), bytes_to_text(kMinMemory));
  }
  if (limits.pids && (*limits.pids < 1 || *limits.pids > (1U << 22))) {
    return fail(Code::Invalid, "a limit of {} processes is not between 1 and {}", *limits.pids,
                1U << 22);
  }
  if (limits.disk_bytes && *limits.disk_bytes < kMinDisk) {
    return fail(Code::Invalid, "a disk limit of {} is below {}", bytes_to_text(*limits.disk_bytes),
                bytes_to_text(kMinDisk));
  }
  if (limits.open_files && *limits.open_files < kMinOpenFiles) {
    return fail(Code::Invalid, "a limit of {} open files is below {}, too few to start a program",
                *limits.open_files, kMinOpenFiles);
  }
  if (limits.wall && limits.wall->count() <= 0)
    return fail(Code::Invalid, "--wall must be positive");
  if (limits.cpu_time && limits.cpu_time->count() <= 0) {
    return fail(Code::Invalid, "--cpu-time must be positive");
  }
  return {};
}

// Puts one controller into the plan if the host has it. Without it: nothing was asked, nothing is
// missing; asked and waived, it is left out; asked and not waived, it is refused.
Result<bool> use_controller(const SandboxSpec& spec, const host::HostFacts& facts,
                            std::string_view controller, bool asked, const std::string& waiver,
                            LaunchPlan& plan) {
  const auto parent = facts.cgroups.parents.find(controller);
  if (parent != facts.cgroups.parents.end()) {
    plan.cgroup.version = facts.cgroups.version;
    plan.cgroup.controllers.push_back({std::string(controller), parent->second});
    return true;
  }
  if (!asked || spec.waived.contains(waiver)) return false;
  return fail(Code::Unsupported,
              "the limit '{}' cannot be enforced here: no {} cgroup controller: {} (or give it up "
              "with --waive {})",
              waiver.substr(waiver.find('.') + 1), controller, facts.cgroups.why_not, waiver);
}

std::string by_cgroup(const host::HostFacts& facts, std::string_view what) {
  return fmt::format("cgroup {} {}", host::to_text(facts.cgroups.version), what);
}

Result<void> plan_memory(const SandboxSpec& spec, const Limits& limits,
                         const host::HostFacts& facts, LaunchPlan& plan) {
  const auto& asked = limits.memory_bytes;
  TRY(const bool enforced,
      use_controller(spec, facts, "memory", asked.has_value(), "limit.memory", plan));
  if (!enforced) {
    // What was waived is listed as such.
    if (spec.waived.contains("limit.memory")) return {};
    plan.not_enforced.push_back(
        {"limit.memory", fmt::format("no memory cgroup controller: {}", facts.cgroups.why_not)});
    return {};
  }
  plan.cgroup.memory_bytes = asked.value_or(std::max(facts.memory_bytes / 2, kMinMemory));
  plan.guarantees.push_back(
      {"limit.memory", by_cgroup(facts, fmt::format("memory, {}, swap 0",
                                                    bytes_to_text(*plan.cgroup.memory_bytes)))});
  return {};
}

Result<void> plan_pids(const SandboxSpec& spec, const Limits& limits, const host::HostFacts& facts,
                       LaunchPlan& plan) {
  const std::uint64_t pids = limits.pids.value_or(kDefaultPids);
  TRY(const bool enforced, use_controller(spec, facts, "pids", false, "limit.pids", plan));
  if (enforced) {
    // On version 2 the box's init is in the cgroup too, and an agent always is, with its shell.
    const bool agent = spec.resident == Resident::Agent;
    const bool unified = facts.cgroups.version == host::CgroupVersion::V2;
    plan.cgroup.pids = pids;
    plan.cgroup.own_pids = (unified || agent ? 1U : 0U) + (agent ? 1U : 0U);
    // While it sets the box up, init is in there with its helpers. A limit below that would end the
    // box before its command: it is kept by the user namespace's count, which begins later.
    if (unified && pids + plan.cgroup.own_pids < kSetUpThreads) {
      plan.box.push_back({Op::SetLimit, RLIMIT_NPROC, pids + plan.cgroup.own_pids});
      plan.cgroup.own_pids = kSetUpThreads - pids;
    }
    plan.guarantees.push_back({"limit.pids", by_cgroup(facts, fmt::format("pids, {}", pids))});
    return {};
  }
  plan.box.push_back({Op::SetLimit, RLIMIT_NPROC, pids + 1});  // and init
  plan.guarantees.push_back(
      {"limit.pids", fmt::format("RLIMIT_NPROC in the box's own user namespace, {}", pids)});
  return {};
}

Result<void> plan_cpu(const SandboxSpec& spec, const Limits& limits, const host::HostFacts& facts,
                      LaunchPlan& plan) {
  if (limits.cpus_milli) {
    TRY(const bool enforced, use_controller(spec, facts, "cpu", true, "limit.cpus", plan));
    if (enforced) {
      plan.cgroup.cpus_milli = limits.cpus_milli;
      plan.guarantees.push_back(
          {"limit.cpus",
           by_cgroup(facts, fmt::format("cpu, {:.3g} cores",
                                        static_cast<double>(*limits.cpus_milli) / 1000))});
    }
  }
  if (!limits.cpu_time) return {};
  TRY(const bool enforced, use_controller(spec, facts, "cpuacct", true, "limit.cpu-time", plan));
  // RLIMIT_CPU counts each process alone: the backstop here, and all there is when waived.
  const auto seconds = static_cast<std::uint64_t>(limits.cpu_time->count() / 1'000'000'000) + 1;
  plan.box.push_back({Op::SetLimit, RLIMIT_CPU, seconds});
  if (enforced) {
    plan.watch.cpu_time = limits.cpu_time;
    plan.guarantees.push_back(
        {"limit.cpu-time", by_cgroup(facts, fmt::format("accounting, {}, all processes together",
                                                        duration_to_text(*limits.cpu_time)))});
  } else {
    plan.guarantees.push_back(
        {"limit.cpu-time", fmt::format("RLIMIT_CPU, {} s for each process alone", seconds)});
  }
  return {};
}

void plan_rlimits(const Limits& limits, const host::HostFacts& facts, LaunchPlan& plan) {
  const std::uint64_t files =
      std::min(limits.open_files.value_or(kDefaultOpenFiles), facts.open_files_hard);
  plan.box.push_back({Op::SetLimit, RLIMIT_CORE, kNoCore});
  plan.box.push_back({Op::SetLimit, RLIMIT_NOFILE, files});
  plan.box.push_back({Op::CapLimit, RLIMIT_STACK, std::min(kDefaultStackBytes, facts.stack_hard)});
  plan.guarantees.push_back({"limit.core", "RLIMIT_CORE, no dump and no helper"});
  // Counts of the caller's own user: a box as that user gets a part of each.
  plan.box.push_back(
      {Op::CapLimit, RLIMIT_SIGPENDING, std::max(facts.pending_signals / kShare, kMinSignals)});
  plan.box.push_back({Op::CapLimit, RLIMIT_MSGQUEUE, kMessageBytes});
  plan.guarantees.push_back({"limit.open-files", fmt::format("RLIMIT_NOFILE, {}", files)});
}

// Private memory has a size in any case. A layer has one when it lies in there, or in an image.
void plan_disk(const SandboxSpec& spec, const Limits& limits, LaunchPlan& plan) {
  const std::string size = bytes_to_text(limits.disk_bytes.value_or(kDefaultDiskBytes));
  std::string by = fmt::format("tmpfs size, {}", size);
  if (std::ranges::count(plan.trees, TreeKind::Image, &Tree::kind) > 0) {
    by += fmt::format("; layer in an ext4 image, {}", size);
  } else if (!handed_layers(plan).empty()) {
    by += ", layers included";
  }
  const auto asked = spec.authority.budget(authority::BudgetKind::Disk);
  if (asked && limits.disk_bytes && *limits.disk_bytes < *asked) {
    by += fmt::format(" (of {} asked for: no more can be kept here)", bytes_to_text(*asked));
  }
  plan.guarantees.push_back({"limit.disk", std::move(by)});
}

}  // namespace

Result<void> plan_limits(const SandboxSpec& spec, const Limits& limits,
                         const host::HostFacts& facts, LaunchPlan& plan) {
  TRY_VOID(check_ranges(limits));
  if (limits.open_files && *limits.open_files > facts.open_files_hard) {
    return fail(Code::Unsupported, "{} open files are more than the caller's own hard limit of {}",
                *limits.open_files, facts.open_files_hard);
  }
  plan_rlimits(limits, facts, plan);
  plan_disk(spec, limits, plan);
  TRY_VOID(plan_memory(spec, limits, facts, plan));
  TRY_VOID(plan_pids(spec, limits, facts, plan));
  TRY_VOID(plan_cpu(spec, limits, facts, plan));
  plan.watch.wall = limits.wall;
  plan.watch.output_bytes = limits.output_bytes;
  if (limits.wall) {
    plan.guarantees.push_back(
        {"limit.wall", fmt::format("supervisor's clock, {}", duration_to_text(*limits.wall))});
  }
  if (limits.output_bytes) {
    plan.guarantees.push_back({"limit.output", fmt::format("supervisor's relay, {}",
                                                           bytes_to_text(*limits.output_bytes))});
  }
  return {};
}

}  // namespace glovebox::plan
