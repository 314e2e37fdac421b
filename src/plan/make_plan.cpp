#include "plan/make_plan.h"

#include "base/quantity.h"
#include "plan/filter/filter.h"
#include "plan/filter/filter_rules.h"
#include "plan/parts.h"

#include <algorithm>
#include <array>

namespace glovebox::plan {
namespace {

constexpr std::array<std::string_view, 7> kWaivable{"landlock",   "host-sockets", "limit.memory",
                                                    "limit.pids", "limit.cpus",   "limit.cpu-time",
                                                    "limit.disk"};
constexpr std::size_t kMaxHostname = 64;
constexpr uid_t kDefaultUidInside = 1000;

Result<void> check_backend(Backend backend) {
  switch (backend) {
    case Backend::Process: return {};
    case Backend::Cell:
      return fail(Code::Unsupported,
                  "backend 'cell' is not available here: cells are for Python sessions of "
                  "'glovebox serve' (use --backend process)");
    case Backend::Microvm:
      return fail(Code::Unsupported,
                  "backend 'microvm' is not available: this build has no virtual machine monitor "
                  "(use --backend process)");
  }
  return fail(Code::Invalid, "unknown backend");
}

Result<void> check_command(const std::vector<std::string>& command, Resident resident) {
  if (resident == Resident::Agent) {
    if (command.empty()) return {};
    return fail(Code::Invalid, "a box with an agent starts without a command");
  }
  if (command.empty()) return fail(Code::Invalid, "no command given");
  if (command.front().empty()) return fail(Code::Invalid, "the command's name is empty");
  if (command.size() > kMaxArguments) {
    return fail(Code::Invalid, "{} arguments are more than {}", command.size(), kMaxArguments);
  }
  std::size_t bytes = 0;
  for (const std::string& argument : command) {
    if (argument.find('\0') != std::string::npos) {
      return fail(Code::Invalid, "an argument holds a NUL byte");
    }
    bytes += argument.size() + 1;
  }
  if (bytes > kMaxArgumentBytes) {
    return fail(Code::Invalid, "{} bytes of arguments are more than {}", bytes, kMaxArgumentBytes);
  }
  return {};
}

Result<void> check_words(const SandboxSpec& spec) {
  for (const std::string& name : spec.waived) {
    if (std::find(kWaivable.begin(), kWaivable.end(), name) == kWaivable.end()) {
      return fail(Code::Invalid, "'{}' cannot be waived; what can be: {}", name,
                  fmt::join(kWaivable, ", "));
    }
  }
  const std::string& host = spec.hostname;
  const bool plain =
      host.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") ==
      std::string::npos;
  if (host.empty() || host.size() > kMaxHostname || !plain) {
    return fail(Code::Invalid, "'{}' is not a host name (letters, digits, '-', '.'; at most {})",
                host, kMaxHostname);
  }
  for (const EnvEntry& entry : spec.caller_env) {
    if (entry.value.find('\0') != std::string::npos) {
      return fail(Code::Invalid, "the value of {} holds a NUL byte", entry.name);
    }
  }
  return {};
}

// Whether a rule denies the variable, or just this value of it.
bool is_denied(const authority::AuthoritySet& set, const EnvEntry& entry) {
  const auto name = authority::EnvName::parse(entry.name);
  const auto value = authority::EnvValue::parse(entry.value);
  if (!name) return false;  // no rule can be about it
  const auto denies = [&](std::optional<authority::EnvValue> form) {
    return set.decide(authority::Env{*name, std::move(form)}).effect == authority::Effect::Deny;
  };
  return denies(std::nullopt) || (value && denies(*value));
}

// The environment is built from nothing: five names with known values, then what was granted.
std::vector<EnvEntry> environment(const SandboxSpec& spec, const Lowered& lowered) {
  std::vector<EnvEntry> env{{"PATH", std::string(kPathInside)},
                            {"HOME", std::string(kHomeInside)},
                            {"LANG", spec.lang},
                            {"TERM", spec.term},
                            {"TMPDIR", "/tmp"}};
  for (const EnvEntry& granted : lowered.env) {
    const auto same = std::find_if(
        env.begin(), env.end(), [&](const EnvEntry& entry) { return entry.name == granted.name; });
    if (same == env.end()) {
      env.push_back(granted);
    } else {
      same->value = granted.value;
    }
  }
  std::erase_if(env, [&](const EnvEntry& entry) { return is_denied(spec.authority, entry); });
  return env;
}

// The files that stand for the command's name, in the order in which a shell would try them.
std::vector<std::string> candidates_for(const std::string& name, std::string_view path) {
  if (name.find('/') != std::string::npos) return {name};
  std::vector<std::string> files;
  while (true) {
    const std::size_t end = path.find(':');
    const std::string_view directory = path.substr(0, end);
    if (!directory.empty()) files.push_back(fmt::format("{}/{}", directory, name));
    if (end == std::string_view::npos) return files;
    path.remove_prefix(end + 1);
  }
}

void plan_identity(const SandboxSpec& spec, const host::HostFacts& facts, LaunchPlan& plan) {
  const bool root = facts.tier == host::Tier::Root;
  plan.tier = facts.tier;
  plan.uid = spec.uid.value_or(root ? kDefaultUidInside : facts.uid);
  plan.gid = spec.gid.value_or(root ? kDefaultUidInside : facts.gid);
  plan.guarantees.push_back(
      {"identity", root ? "user namespace, an unprivileged uid of the box's own, idmapped mounts"
                        : "user namespace, the caller's uid and nothing else mapped"});
  plan.guarantees.push_back({"capabilities", "all five sets empty, securebits locked"});
  plan.guarantees.push_back({"no-new-privileges", "prctl, nosuid mounts"});
}

void plan_process(const SandboxSpec& spec, const Lowered& lowered, LaunchPlan& plan) {
  plan.argv = spec.command;
  std::string_view path;
  const std::vector<EnvEntry> env = environment(spec, lowered);
  for (const EnvEntry& entry : env) {
    if (entry.name == "PATH") path = entry.value;
    plan.envp.push_back(fmt::format("{}={}", entry.name, entry.value));
  }
  plan.resident = spec.resident;
  if (!spec.command.empty()) plan.candidates = candidates_for(spec.command.front(), path);
  plan.has_terminal = spec.terminal.has_value();
}

// When the last of its layers began.
std::optional<std::uint64_t> latest_start(const SandboxSpec& spec) {
  std::optional<std::uint64_t> latest;
  for (const Workspace& workspace : spec.workspaces) {
    if (workspace.layer) latest = std::max(latest.value_or(0), workspace.start_ns);
  }
  return latest;
}

enum class SocketGuard : std::uint8_t { Off, On };

std::vector<sock_filter> compile_with(Reach reach, SocketGuard guard,
                                      const std::vector<std::string>& groups) {
  FilterRules rules = default_filter_rules();
  for (const std::string& group : groups) bring_back(rules, group);
  // A socket of the host's that a box was handed for a connection could be shut down by it, and
  // bound and opened to others instead: the last two are asked for even where nothing is published.
  constexpr std::array<std::string_view, 3> kCalls{"connect", "bind", "listen"};
  if (reach == Reach::Granted) pass_to_broker(rules, kCalls);
  if (guard == SocketGuard::On) guard_unix_sockets(rules);
  return compile_filter(rules);
}

// There are few usual shapes of filter: each is compiled when it is first needed, and kept.
std::vector<sock_filter> filter_for(const Lowered& lowered) {
  const std::optional<NetworkPlan>& network = lowered.network;
  const Reach reach = network && network->reaches_out() ? Reach::Granted : Reach::OwnLoopback;
  const SocketGuard guard =
      network && network->guards_sockets() ? SocketGuard::On : SocketGuard::Off;
  if (!lowered.syscall_groups.empty()) return compile_with(reach, guard, lowered.syscall_groups);
  if (reach == Reach::Granted && guard == SocketGuard::On) {
    static const auto both = compile_with(Reach::Granted, SocketGuard::On, {});
    return both;
  }
  if (reach == Reach::Granted) {
    static const auto open = compile_with(Reach::Granted, SocketGuard::Off, {});
    return open;
  }
  if (guard == SocketGuard::On) {
    static const auto guarded = compile_with(Reach::OwnLoopback, SocketGuard::On, {});
    return guarded;
  }
  static const auto sealed = compile_with(Reach::OwnLoopback, SocketGuard::Off, {});
  return sealed;
}

void add_network_guarantees(const SandboxSpec& spec, LaunchPlan& plan) {
  const bool reaches_out = plan.network && plan.network->reaches_out();
  plan.guarantees.push_back(
      {"network", fmt::format("empty network namespace, loopback {}{}",
                              spec.loopback == Loopback::Up ? "of its own" : "down",
                              reaches_out ? ", connections through the broker" : "")});
  if (plan.network && plan.network->guards_sockets()) {
    plan.guarantees.push_back({"host-sockets", "connect broker, no Unix datagram sockets"});
  }
}

}  // namespace

std::span<const std::string_view> waivable() { return kWaivable; }

Result<LaunchPlan> make_plan(const SandboxSpec& spec, const host::HostFacts& facts) {
  TRY_VOID(check_backend(spec.backend));
  TRY_VOID(check_command(spec.command, spec.resident));
  TRY_VOID(check_words(spec));

  LaunchPlan plan;
  plan_identity(spec, facts, plan);
  TRY(Lowered lowered, lower(spec, facts));
  plan.terms = std::move(lowered.terms);
  plan.policy = spec.policy;
  plan_process(spec, lowered, plan);
  TRY(View view, plan_view(spec, lowered, facts));
  plan.base = std::move(view.base);
  plan.box = std::move(view.box);
  plan.trees = std::move(view.trees);

  plan.early.push_back({Op::BeginNetwork, spec.loopback == Loopback::Up ? 1U : 0U});
  plan.early.push_back({Op::MapIdentity, plan.uid, plan.gid});
  plan.network = lowered.network;
  add_network_guarantees(spec, plan);
  plan.guarantees.push_back({"processes", "pid namespace, ended with its init"});
  plan.guarantees.push_back({"ipc", "ipc namespace, private /dev/shm"});
  plan.guarantees.push_back({"filesystem", "mount namespace, pivoted root, read-only system"});
  plan.box.push_back({Op::EnterNetwork});
  if (plan.network && plan.network->resolves) plan.box.push_back({Op::OpenResolver});
  plan.box.push_back({Op::SetHostname, 0, 0, spec.hostname});
  plan.box.push_back({Op::ChangeDirectory, 0, 0, view.cwd});
  if (spec.terminal) {
    plan.box.push_back({Op::OpenTerminal, spec.terminal->rows, spec.terminal->columns});
  }
  plan.box.push_back({Op::EnterCgroups});
  plan.box.push_back({Op::LeaveHost});
  plan.box.push_back({Op::DropCapabilities});
  plan.box.push_back({Op::NoNewPrivileges});
  TRY_VOID(plan_landlock(spec, facts, lowered.regions, plan));
  plan.box.push_back({Op::CloseFiles});
  for (const Wall wall : {Wall::Namespaces, Wall::Privileges, Wall::Root}) {
    plan.box.push_back({Op::VerifyWall, static_cast<std::uint64_t>(wall)});
  }
  TRY_VOID(plan_limits(spec, lowered.limits, facts, plan));
  plan.filter = filter_for(lowered);
  if (const auto start = latest_start(spec)) {
    plan.box.push_back({Op::AwaitClock, *start});
  }
  plan.box.push_back({Op::InstallFilter, plan.network ? 1U : 0U});
  plan.box.push_back({Op::VerifyWall, static_cast<std::uint64_t>(Wall::Filter)});
  const auto& groups = lowered.syscall_groups;
  plan.guarantees.push_back(
      {"syscalls",
       fmt::format("seccomp allow-list, {} instructions{}", plan.filter.size(),
                   groups.empty() ? "" : fmt::format(", with {}", fmt::join(groups, ", ")))});
  plan.guarantees.push_back({"keyrings", "session keyring of the launcher's own, calls refused"});
  plan.guarantees.push_back({"files-passed", "descriptors 0, 1, 2 and no other"});
  plan.waived.assign(spec.waived.begin(), spec.waived.end());
  return plan;
}

}  // namespace glovebox::plan
