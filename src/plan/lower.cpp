#include "plan/lower.h"

#include "authority/terms.h"
#include "host/secrets.h"
#include "plan/parts.h"

#include <algorithm>
#include <variant>

namespace glovebox::plan {
namespace {

using authority::BudgetKind;
using authority::Effect;
using authority::Rule;

std::chrono::nanoseconds from_ms(std::uint64_t ms) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(ms));
}

Limits lower_budgets(const SandboxSpec& spec) {
  const auto budget = [&](BudgetKind kind) { return spec.authority.budget(kind); };
  Limits limits;
  limits.memory_bytes = budget(BudgetKind::Memory);
  limits.pids = budget(BudgetKind::Pids);
  limits.cpus_milli = spec.cpus_milli;
  if (const auto ms = budget(BudgetKind::Cpu)) limits.cpu_time = from_ms(*ms);
  if (const auto ms = budget(BudgetKind::Wall)) limits.wall = from_ms(*ms);
  limits.output_bytes = budget(BudgetKind::Output);
  limits.open_files = budget(BudgetKind::OpenFiles);
  limits.disk_bytes = budget(BudgetKind::Disk);
  if (limits.disk_bytes && spec.disk_at_most) {
    limits.disk_bytes = std::min(*limits.disk_bytes, *spec.disk_at_most);
  }
  limits.inodes = budget(BudgetKind::Inodes);
  return limits;
}

// Turns one rule into what enforces it, or refuses it.
class Enforcement {
 public:
  Enforcement(const SandboxSpec& spec, const host::HostFacts& facts, Lowered& lowered,
              const Rule& rule)
      : spec_(spec), facts_(facts), lowered_(lowered), rule_(rule) {}

  Result<std::string> operator()(const authority::ReadPath&) const { return files(); }
  Result<std::string> operator()(const authority::WritePath&) const { return files(); }
  Result<std::string> operator()(const authority::ExecPath&) const { return files(); }
  Result<std::string> operator()(const authority::ConnectUnix&) const { return files(); }

  Result<std::string> operator()(const authority::Env& env) const {
    if (rule_.effect == Effect::Deny) return "left out of the environment";
    if (env.value) {
      lowered_.env.push_back({env.name.text(), env.value->text()});
      return "set in the environment";
    }
    const auto known = std::ranges::find(spec_.caller_env, env.name.text(), &EnvEntry::name);
    if (known == spec_.caller_env.end()) return "not set by the caller, so not passed on";
    lowered_.env.push_back(*known);
    return "passed on in the environment";
  }

  Result<std::string> operator()(const authority::ConnectTCP&) const { return network(); }
  Result<std::string> operator()(const authority::ListenTCP& listen) const {
    if (rule_.effect == Effect::Allow && is_loopback(listen.address) &&
        spec_.loopback == Loopback::Up) {
      return "the box's own loopback";
    }
    return network();
  }
  Result<std::string> operator()(const authority::ResolveName&) const { return network(); }

  Result<std::string> operator()(const authority::Secret& secret) const {
    if (rule_.effect == Effect::Deny) return "not handed in";
    if (!spec_.secrets.contains(secret.name.text())) return refuse("there is no such secret");
    return fmt::format("a file that can only be read, {}", secret_path(secret.name.text()));
  }

  Result<std::string> operator()(const authority::Import&) const { return python(); }
  Result<std::string> operator()(const authority::Subprocess&) const { return python(); }
  Result<std::string> operator()(const authority::Clock&) const { return python(); }
  Result<std::string> operator()(const authority::Random&) const { return python(); }
  Result<std::string> operator()(const authority::Channel&) const { return python(); }

  Result<std::string> operator()(const authority::Syscalls& group) const {
    if (rule_.effect == Effect::Deny) return "refused by the filter";
    lowered_.syscall_groups.push_back(group.name.text());
    return "let through by the filter";
  }

  template <BudgetKind K>
  Result<std::string> operator()(const authority::Budget<K>&) const {
    if constexpr (authority::is_of_network(K)) return network();
    return "see the limits";
  }

 private:
  Result<std::string> files() const {
    return file_rule_enforcement(rule_, lowered_.regions, facts_);
  }
  Result<std::string> network() const { return network_rule_enforcement(lowered_.network, rule_); }
  Result<std::string> python() const {
    return refuse(
        "it is about what Python code may do, which backend 'process' cannot tell from what any "
        "program may do");
  }
  Result<std::string> refuse(std::string_view why) const {
    return fail(Code::Unsupported, "{}: {}", authority::to_text(rule_), why);
  }

  const SandboxSpec& spec_;
  const host::HostFacts& facts_;
  Lowered& lowered_;
  const Rule& rule_;
};

}  // namespace

std::string secret_path(std::string_view name) {
  return fmt::format("{}/{}", host::kSecretsInside, name);
}

Result<Lowered> lower(const SandboxSpec& spec, const host::HostFacts& facts) {
  Lowered lowered;
  const std::vector<Rule> rules = spec.authority.rules();
  TRY(lowered.regions, lower_files(spec, rules, facts));
  lowered.limits = lower_budgets(spec);
  TRY(lowered.network, plan_network(spec, rules, lowered.regions, facts));
  lowered.terms.reserve(rules.size());
  for (const Rule& rule : rules) {
    if (rule.effect == Effect::Silent) continue;  // says nothing of its own
    TRY(std::string by, std::visit(Enforcement(spec, facts, lowered, rule), rule.capability));
    lowered.terms.push_back({authority::to_text(rule), std::move(by)});
  }
  return lowered;
}

}  // namespace glovebox::plan
