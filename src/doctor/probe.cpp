#include "doctor/probe.h"

#include "doctor/probe_remedy.h"
#include "doctor/probe_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include <unistd.h>

namespace glovebox::host {
namespace {

using probe::Cause;
using probe::Hints;
using probe::Lack;
using probe::Outcome;
using probe::Reply;
using probe::Stage;

// When a feature is needed by every box, and not only by those that ask for something.
enum class When : std::uint8_t {
  Always,
  Never,
  AsRoot,
  AsUser,
  WithMemory,  // a plain box is limited where the host has the controller, so it must work then
  WithPids,
  WithoutPids,  // the limit that takes its place
};

struct Row {
  const char* id;
  FeatureGroup group;
  When when;
  Reply (*trial)(const Stage&);
  Lack lack;
  const char* since;       // the kernel that has it
  const char* needed_for;  // where not every box needs it
};

constexpr FeatureGroup kEvery = FeatureGroup::EveryBox;
constexpr FeatureGroup kLimits = FeatureGroup::Limits;
constexpr FeatureGroup kTrees = FeatureGroup::Workspaces;
constexpr FeatureGroup kNetwork = FeatureGroup::Network;
constexpr const char* kTreeOptions = "--workspace, --read and --write below it, as root";

// In the order of a launch, so that the first thing that is missing is the first to fix.
constexpr std::array kRows{
    Row{"identity.box-uid", kEvery, When::AsRoot, probe::try_box_uid, Lack::BoxUid, "5.12",
        "boxes of root"},
    Row{"identity.lease", kEvery, When::AsRoot, probe::try_uid_lease, Lack::UidLease, "3.15",
        "boxes of root"},
    Row{"keyring.session", kEvery, When::Always, probe::try_keyring, Lack::SystemCall, "2.6.32",
        ""},
    Row{"process.clone3", kEvery, When::Always, probe::try_clone3, Lack::SystemCall, "5.5", ""},
    Row{"namespace.user", kEvery, When::Always, probe::try_user_namespace, Lack::UserNamespace,
        "5.5", ""},
    Row{"namespace.user.nested", kEvery, When::AsUser, probe::try_nested_user_namespace,
        Lack::UserNamespace, "5.5", "boxes of ordinary users"},
    Row{"namespace.mount", kEvery, When::Always, probe::try_mount_namespace, Lack::UserNamespace,
        "5.12", ""},
    Row{"namespace.pid", kEvery, When::Always, probe::try_pid_namespace, Lack::UserNamespace, "5.5",
        ""},
    Row{"namespace.net", kEvery, When::Always, probe::try_net_namespace, Lack::UserNamespace, "5.5",
        ""},
    Row{"namespace.ipc", kEvery, When::Always, probe::try_ipc_namespace, Lack::UserNamespace, "5.5",
        ""},
    Row{"namespace.uts", kEvery, When::Always, probe::try_uts_namespace, Lack::UserNamespace, "5.5",
        ""},
    Row{"namespace.cgroup", kEvery, When::Always, probe::try_cgroup_namespace, Lack::UserNamespace,
        "5.5", ""},
    Row{"mount.tmpfs", kEvery, When::Always, probe::try_tmpfs, Lack::Mounts, "5.12", ""},
    Row{"mount.open-tree", kEvery, When::Always, probe::try_open_tree, Lack::Mounts, "5.12", ""},
    Row{"mount.setattr", kEvery, When::Always, probe::try_mount_setattr, Lack::Mounts, "5.12", ""},
    Row{"mount.move", kEvery, When::Always, probe::try_move_mount, Lack::Mounts, "5.12", ""},
    Row{"mount.pivot-root", kEvery, When::Always, probe::try_pivot_root, Lack::Mounts, "5.12", ""},
    Row{"mount.proc", kEvery, When::Always, probe::try_proc, Lack::Proc, "5.12", ""},
    Row{"mount.devpts", kEvery, When::Always, probe::try_devpts, Lack::Mounts, "5.12", ""},
    Row{"wall.capabilities", kEvery, When::Always, probe::try_capabilities, Lack::SystemCall, "4.3",
        ""},
    Row{"wall.no-new-privs", kEvery, When::Always, probe::try_no_new_privileges, Lack::SystemCall,
        "3.5", ""},
    Row{"wall.landlock", kEvery, When::Always, probe::try_landlock, Lack::Landlock, "5.13", ""},
    Row{"wall.seccomp", kEvery, When::Always, probe::try_seccomp, Lack::SystemCall, "3.17", ""},
    Row{"files.close-range", kEvery, When::Always, probe::try_close_range, Lack::SystemCall, "5.9",
        ""},

    Row{"cgroup.memory", kLimits, When::WithMemory, probe::try_memory_cgroup, Lack::Cgroup, "5.7",
        "--memory"},
    Row{"cgroup.memory.swap", kLimits, When::WithMemory, probe::try_swap_limit, Lack::Swap, "5.7",
        "--memory (no swap on top of it)"},
    Row{"cgroup.memory.oom", kLimits, When::WithMemory, probe::try_memory_event, Lack::Cgroup,
        "5.7", "--memory (the whole box ends)"},
    Row{"cgroup.pids", kLimits, When::WithPids, probe::try_pids_cgroup, Lack::Cgroup, "5.7",
        "--pids by cgroup (else RLIMIT_NPROC)"},
    Row{"cgroup.cpu", kLimits, When::Never, probe::try_cpu_cgroup, Lack::CgroupCpu, "5.7",
        "--cpus"},
    Row{"cgroup.cpuacct", kLimits, When::Never, probe::try_cpu_accounting, Lack::Cgroup, "5.7",
        "--cpu-time"},
    Row{"cgroup.clone-into", kLimits, When::WithPids, probe::try_clone_into_cgroup, Lack::Cgroup,
        "5.7", "limits with cgroup v2"},
    Row{"rlimit.nproc", kLimits, When::WithoutPids, probe::try_process_limit, Lack::SystemCall,
        "5.14", "--pids without a cgroup"},

    Row{"files.openat2", kTrees, When::Never, probe::try_openat2, Lack::SystemCall, "5.6",
        "--workspace, --read and --write"},
    Row{"mount.idmap.root", kTrees, When::Never, probe::try_idmap_root, Lack::Idmap, "5.12",
        kTreeOptions},
    Row{"mount.idmap.tmp", kTrees, When::Never, probe::try_idmap_tmp, Lack::Idmap, "5.12",
        kTreeOptions},
    Row{"mount.idmap.cwd", kTrees, When::Never, probe::try_idmap_current, Lack::Idmap, "5.12",
        kTreeOptions},
    Row{"mount.overlay", kTrees, When::Never, probe::try_overlay, Lack::Overlay, "5.12",
        "overlay workspaces"},

    Row{"seccomp.notify", kNetwork, When::Never, probe::try_seccomp_notify, Lack::Notification,
        "5.0", "network access by the broker"},
    Row{"seccomp.addfd", kNetwork, When::Never, probe::try_seccomp_addfd, Lack::Notification,
        "5.14", "network access by the broker"},
    Row{"process.pidfd-getfd", kNetwork, When::Never, probe::try_pidfd_getfd, Lack::SystemCall,
        "5.6", "network access by the broker"},
    Row{"socket.filter", kNetwork, When::Never, probe::try_socket_filter, Lack::SystemCall, "3.9",
        "network access as root"},
    Row{"socket.tables", kNetwork, When::Never, probe::try_socket_tables, Lack::SystemCall, "4.7",
        "reports of connections, and their budgets"},

    Row{"kvm", FeatureGroup::OtherBackends, When::Never, probe::try_kvm, Lack::Kvm, "4.0",
        "--backend microvm"},
};

Requirement requirement(When when, const HostFacts& facts) {
  bool needed = false;
  switch (when) {
    case When::Always: needed = true; break;
    case When::Never: break;
    case When::AsRoot: needed = facts.tier == Tier::Root; break;
    case When::AsUser: needed = facts.tier == Tier::User; break;
    case When::WithMemory: needed = facts.cgroups.has("memory"); break;
    case When::WithPids: needed = facts.cgroups.has("pids"); break;
    case When::WithoutPids: needed = !facts.cgroups.has("pids"); break;
  }
  return needed ? Requirement::EveryBox : Requirement::Optional;
}

// What failed on the way to the feature needs its own remedy, not the feature's.
Lack lack_of(const Row& row, Cause cause) {
  switch (cause) {
    case Cause::Itself: return row.lack;
    case Cause::UserNamespace: return Lack::UserNamespace;
    case Cause::MountNamespace: return Lack::Mounts;
    case Cause::Cgroup: return row.lack == Lack::CgroupCpu ? row.lack : Lack::Cgroup;
  }
  return row.lack;
}

std::string detail_of(const Reply& reply) {
  if (reply.outcome != Outcome::Failed || reply.os_errno == 0) return std::string(reply.view());
  return fmt::format("{}: {}", reply.view(), errno_text(reply.os_errno));
}

struct Examination {
  Stage stage;
  Hints hints;
  std::chrono::milliseconds timeout;
  std::optional<Error> facts_problem;
};

Examination begin(const ProbeOptions& options) {
  Examination examination;
  Stage& stage = examination.stage;
  auto facts = read_facts();
  if (facts) {
    stage.facts = *std::move(facts);
  } else {
    // Go on with what can be known: the trials show the rest.
    examination.facts_problem = facts.error();
    stage.facts.uid = ::geteuid();
    stage.facts.gid = ::getegid();
    stage.facts.tier = stage.facts.uid == 0 ? Tier::Root : Tier::User;
    if (auto cgroups = read_cgroup_facts()) stage.facts.cgroups = *std::move(cgroups);
  }
  stage.box_uid = options.box_uid;
  stage.current_directory = options.current_directory.empty() ? "/" : options.current_directory;
  // A form of name that the launcher takes for a leftover once this process is gone.
  stage.cgroup_name = fmt::format("glovebox-{}-doctor", ::getpid());
  examination.hints = probe::read_hints(stage.facts.tier, options.program);
  examination.timeout = options.timeout;
  return examination;
}

Feature examine(const Row& row, const Examination& examination) {
  const Stage& stage = examination.stage;
  const Reply reply = probe::run_trial([&] { return row.trial(stage); }, examination.timeout);
  if (row.group == kLimits) probe::remove_trial_cgroups(stage);
  Feature feature;
  feature.id = row.id;
  feature.group = row.group;
  feature.requirement = requirement(row.when, stage.facts);
  feature.detail = detail_of(reply);
  feature.needed_for = feature.requirement == Requirement::EveryBox ? "every box" : row.needed_for;
  switch (reply.outcome) {
    case Outcome::Ok: feature.state = FeatureState::Ok; break;
    case Outcome::NotApplicable: feature.state = FeatureState::NotApplicable; break;
    case Outcome::Failed:
      feature.state = FeatureState::Missing;
      feature.fix =
          probe::remedy(lack_of(row, reply.cause), reply.os_errno, row.since, examination.hints);
      break;
  }
  return feature;
}

Feature facts_feature(const Examination& examination) {
  Feature feature{"host.facts", kEvery, Requirement::EveryBox, FeatureState::Ok, "",
                  "every box",  ""};
  const HostFacts& facts = examination.stage.facts;
  if (!examination.facts_problem) {
    feature.detail = fmt::format("{} tier, uid {}", to_text(facts.tier), facts.uid);
    return feature;
  }
  feature.state = FeatureState::Missing;
  feature.detail = examination.facts_problem->message;
  feature.fix = probe::remedy(Lack::Facts, 0, "", examination.hints);
  return feature;
}

}  // namespace

std::string_view to_text(FeatureState state) {
  switch (state) {
    case FeatureState::Ok: return "ok";
    case FeatureState::Missing: return "missing";
    case FeatureState::NotApplicable: return "not-applicable";
  }
  return "unknown";
}

std::string_view to_text(FeatureGroup group) {
  switch (group) {
    case FeatureGroup::EveryBox: return "every box needs";
    case FeatureGroup::Limits: return "limits";
    case FeatureGroup::Workspaces: return "workspaces";
    case FeatureGroup::Network: return "network";
    case FeatureGroup::OtherBackends: return "other backends";
  }
  return "unknown";
}

bool can_run_boxes(const HostReport& report) {
  return std::none_of(report.features.begin(), report.features.end(), [](const Feature& feature) {
    return feature.requirement == Requirement::EveryBox && feature.state == FeatureState::Missing;
  });
}

HostReport probe_host(const ProbeOptions& options) {
  const Examination examination = begin(options);
  HostReport report;
  report.tier = examination.stage.facts.tier;
  report.features.push_back(facts_feature(examination));
  for (const Row& row : kRows) report.features.push_back(examine(row, examination));
  return report;
}

Result<Feature> probe_feature(std::string_view id, const ProbeOptions& options) {
  const auto row =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& known) { return known.id == id; });
  if (row == kRows.end()) return fail(Code::NotFound, "no feature is called '{}'", id);
  return examine(*row, begin(options));
}

}  // namespace glovebox::host
