#include "base/quantity.h"
#include "plan/launch_plan.h"

#include <array>

#include <linux/mount.h>
#include <sys/resource.h>

namespace glovebox::plan {
namespace {

struct Name {
  std::uint64_t value;
  std::string_view name;
};

constexpr std::array<Name, 4> kAttributes{{{MOUNT_ATTR_RDONLY, "ro"},
                                           {MOUNT_ATTR_NOSUID, "nosuid"},
                                           {MOUNT_ATTR_NODEV, "nodev"},
                                           {MOUNT_ATTR_NOEXEC, "noexec"}}};

constexpr std::array<Name, 7> kLimitNames{{{RLIMIT_CORE, "core"},
                                           {RLIMIT_NOFILE, "open files"},
                                           {RLIMIT_STACK, "stack"},
                                           {RLIMIT_NPROC, "processes"},
                                           {RLIMIT_CPU, "cpu seconds"},
                                           {RLIMIT_SIGPENDING, "pending signals"},
                                           {RLIMIT_MSGQUEUE, "message queue bytes"}}};

std::string_view limit_name(std::uint64_t resource) {
  for (const Name& known : kLimitNames) {
    if (known.value == resource) return known.name;
  }
  return "unknown";
}

std::string details(const Step& step) {
  const bool scratch = step.a == static_cast<std::uint64_t>(Place::Scratch);
  const std::string_view where = scratch ? "private:" : "/";
  switch (step.op) {
    case Op::AttachHost:
      return fmt::format("{} at /{} ({})", step.text, step.other, mount_attributes_to_text(step.a));
    case Op::MakeDirectory: return fmt::format("{}{} ({:04o})", where, step.text, step.b);
    case Op::WriteFile:
    case Op::MakeFile: return fmt::format("{}{}", where, step.text);
    case Op::MakeLink: return fmt::format("{}{} -> {}", where, step.text, step.other);
    case Op::MapIdentity: return fmt::format("uid {} gid {} inside", step.a, step.b);
    case Op::BeginNetwork: return step.a != 0 ? "empty, loopback up" : "empty, loopback down";
    case Op::MountScratch:
      return fmt::format("{}, {} inodes, first at /{}", bytes_to_text(step.a), step.b, step.text);
    case Op::AttachScratch:
    case Op::AttachCover: return fmt::format("private:{} at /{}", step.text, step.other);
    case Op::AttachTree:
      return fmt::format("/{} ({})", step.text, mount_attributes_to_text(step.b));
    case Op::MountOverlay:
      return fmt::format("/{} (rw,nosuid,nodev{}{})", step.text,
                         (step.b & 1U) == 0 ? ", in memory" : "",
                         step.b > 1 ? fmt::format(", over {} layers", step.b >> 1U) : "");
    case Op::PinDirectory: return fmt::format("/{}", step.text);
    case Op::HandOutLayer: return fmt::format("of /{}, to the supervisor", step.other);
    case Op::SetHostname:
    case Op::ChangeDirectory: return step.text;
    case Op::SetLimit:
    case Op::CapLimit: return fmt::format("{} {}", limit_name(step.a), step.b);
    case Op::OpenTerminal: return fmt::format("{} rows, {} columns", step.a, step.b);
    case Op::LandlockBegin:
      return fmt::format("files {:#x} net {:#x} scopes {:#x}", step.a, step.b & 0xffffffffU,
                         step.b >> 32U);
    case Op::InstallFilter: return step.a != 0 ? "with a listener for the connect broker" : "";
    case Op::OpenResolver: return "127.0.0.1 port 53, for the connect broker";
    case Op::LandlockAllow: return fmt::format("{} {:#x}", step.text, step.a);
    case Op::CoverProc: return fmt::format("{} {}", step.text, step.other);
    case Op::CapNamespace: return fmt::format("{} {}", step.text, step.a);
    case Op::VerifyWall: return std::string(to_text(static_cast<Wall>(step.a)));
    default: return "";
  }
}

std::string rights_to_text(const Rights& rights) {
  std::vector<std::string_view> words;
  if (rights.write) {
    words.emplace_back("write");
  } else if (rights.read) {
    words.emplace_back("read");
  }
  if (rights.exec) words.emplace_back("exec");
  if (rights.connect) words.emplace_back("unix");
  return fmt::format("{}", fmt::join(words, ","));
}

void append_steps(std::string& text, const std::vector<Step>& steps) {
  std::size_t number = 0;
  for (const Step& step : steps) {
    text += fmt::format("  {:>3}  {}\n", ++number, to_text(step));
  }
}

std::string cgroup_to_text(const CgroupPlan& cgroup) {
  if (cgroup.controllers.empty()) return "  none\n";
  std::string text;
  for (const Controller& controller : cgroup.controllers) {
    text += fmt::format("  {} below {}\n", controller.name, controller.parent);
  }
  if (cgroup.memory_bytes) {
    text += fmt::format("  memory {}, swap 0\n", bytes_to_text(*cgroup.memory_bytes));
  }
  if (cgroup.pids) text += fmt::format("  pids {}\n", *cgroup.pids);
  if (cgroup.cpus_milli) {
    text += fmt::format("  cpus {:.3g}\n", static_cast<double>(*cgroup.cpus_milli) / 1000);
  }
  return text;
}

}  // namespace

std::uint64_t mount_attributes(const Rights& rights) {
  std::uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  if (!rights.write) attributes |= MOUNT_ATTR_RDONLY;
  if (!rights.exec) attributes |= MOUNT_ATTR_NOEXEC;
  return attributes;
}

std::string mount_attributes_to_text(std::uint64_t attributes) {
  std::vector<std::string_view> names;
  for (const Name& known : kAttributes) {
    if ((attributes & known.value) != 0) names.push_back(known.name);
  }
  if ((attributes & MOUNT_ATTR_RDONLY) == 0) names.insert(names.begin(), "rw");
  return fmt::format("{}", fmt::join(names, ","));
}

std::vector<std::string> handed_layers(const LaunchPlan& plan) {
  std::vector<std::string> paths;
  for (const Step& step : plan.box) {
    if (step.op == Op::HandOutLayer) paths.push_back("/" + step.other);
  }
  return paths;
}

std::string_view to_text(Wall wall) {
  switch (wall) {
    case Wall::Namespaces: return "namespaces";
    case Wall::Root: return "root";
    case Wall::Privileges: return "privileges";
    case Wall::Filter: return "filter";
  }
  return "unknown";
}

std::string_view to_text(Op op) {
  switch (op) {
    case Op::MountRoot: return "mount-root";
    case Op::AttachHost: return "attach-host";
    case Op::SealRoot: return "seal-root";
    case Op::PivotRoot: return "pivot-root";
    case Op::MakeDirectory: return "make-directory";
    case Op::MakeFile: return "make-file";
    case Op::MakeLink: return "make-link";
    case Op::WriteFile: return "write-file";
    case Op::MapIdentity: return "map-identity";
    case Op::BeginNetwork: return "begin-network";
    case Op::EnterNetwork: return "enter-network";
    case Op::OpenResolver: return "open-resolver";
    case Op::MountScratch: return "mount-scratch";
    case Op::AttachScratch: return "attach-scratch";
    case Op::MountProc: return "mount-proc";
    case Op::MountTerminals: return "mount-terminals";
    case Op::AttachCover: return "attach-cover";
    case Op::AttachTree: return "attach-tree";
    case Op::PinDirectory: return "pin-directory";
    case Op::MountOverlay: return "mount-overlay";
    case Op::HandOutLayer: return "hand-out-layer";
    case Op::SetHostname: return "set-hostname";
    case Op::ChangeDirectory: return "change-directory";
    case Op::SetLimit: return "set-limit";
    case Op::CapLimit: return "cap-limit";
    case Op::OpenTerminal: return "open-terminal";
    case Op::LeaveHost: return "leave-host";
    case Op::DropCapabilities: return "drop-capabilities";
    case Op::NoNewPrivileges: return "no-new-privileges";
    case Op::LandlockBegin: return "landlock-begin";
    case Op::LandlockAllow: return "landlock-allow";
    case Op::LandlockEnforce: return "landlock-enforce";
    case Op::InstallFilter: return "install-filter";
    case Op::EnterCgroups: return "enter-cgroups";
    case Op::AwaitClock: return "await-clock";
    case Op::CloseFiles: return "close-files";
    case Op::VerifyWall: return "verify-wall";
    case Op::CoverProc: return "cover-proc";
    case Op::CapNamespace: return "cap-namespace";
  }
  return "unknown";
}

std::string to_text(const Step& step) {
  const std::string more = details(step);
  if (more.empty()) return std::string(to_text(step.op));
  return fmt::format("{:<18} {}", to_text(step.op), more);
}

std::string to_text(const LaunchPlan& plan) {
  std::string text = fmt::format("tier {}, identity uid {} gid {} inside\n",
                                 host::to_text(plan.tier), plan.uid, plan.gid);
  text += "\nfirst, in new user, mount, pid, ipc, uts and cgroup namespaces:\n";
  append_steps(text, plan.early);
  text += "\nbase view:\n";
  append_steps(text, plan.base);
  text += "\nhanded in:\n";
  for (const Tree& tree : plan.trees) {
    text += fmt::format("  {:<10} {}{}\n", rights_to_text(tree.rights), tree.source.path,
                        tree.kind == TreeKind::Image ? " (image)" : "");
  }
  if (plan.trees.empty()) text += "  nothing\n";
  text += "\ncgroup:\n" + cgroup_to_text(plan.cgroup);
  text += "\nbox:\n";
  append_steps(text, plan.box);
  if (plan.resident == Resident::Agent) {
    text += "\nsession agent as PID 1\n";
  } else {
    text += "\ncommand:\n  " + fmt::format("{}\n", fmt::join(plan.argv, " "));
    text += fmt::format("  tried as: {}\n", fmt::join(plan.candidates, " "));
  }
  text += fmt::format("  environment: {}\n", fmt::join(plan.envp, " "));
  if (plan.policy)
    text += fmt::format("\npolicy:\n  {} {}\n", plan.policy->name, plan.policy->digest);
  text += "\nauthority:\n";
  for (const Guarantee& term : plan.terms) {
    text += fmt::format("  {:<34} {}\n", term.name, term.by);
  }
  if (plan.terms.empty()) text += "  none\n";
  text += "\nenforced:\n";
  for (const Guarantee& guarantee : plan.guarantees) {
    text += fmt::format("  {:<20} {}\n", guarantee.name, guarantee.by);
  }
  if (!plan.not_enforced.empty()) text += "\nnot enforced here:\n";
  for (const Guarantee& missing : plan.not_enforced) {
    text += fmt::format("  {:<20} {}\n", missing.name, missing.by);
  }
  if (!plan.waived.empty()) text += fmt::format("\nwaived: {}\n", fmt::join(plan.waived, ", "));
  return text;
}

}  // namespace glovebox::plan
