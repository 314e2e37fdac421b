// A session whose policy has become narrower while its box runs.
#include "authority/terms.h"
#include "base/quantity.h"
#include "request/network_authority.h"
#include "session/box/box_session.h"
#include "session/box/running_cgroup.h"

#include <algorithm>

namespace glovebox::session {
namespace {

using authority::BudgetKind;

std::string budget_line(BudgetKind kind, std::uint64_t amount) {
  return fmt::format("{}={}", authority::info(kind).word, authority::amount_to_text(kind, amount));
}

bool is_smaller(std::optional<std::uint64_t> next, std::optional<std::uint64_t> held) {
  return next && (!held || *next < *held);
}

// Takes a limit that was lowered, or why it was not.
void record(const Result<void>& done, std::string line, std::optional<std::uint64_t>& held,
            std::uint64_t next, NarrowedBox& narrowed) {
  if (done) {
    held = next;
    narrowed.at_once.push_back(std::move(line));
  } else {
    narrowed.for_new_boxes.push_back(fmt::format("{} ({})", line, done.error().message));
  }
}

}  // namespace

void BoxSession::narrow_network(const authority::AuthoritySet& to, egress::Existing existing,
                                NarrowedBox& narrowed) {
  if (!settings_.network) return;
  const auto done = settings_.network->narrow(to, existing);
  if (!done) return;  // the broker does not know it: it has no network any more
  for (const authority::Rule& rule : done->lost.rules()) {
    if (rule.effect != authority::Effect::Allow || !is_about_network(rule.capability)) continue;
    narrowed.at_once.push_back(fmt::format("no longer: {}", authority::to_text(rule)));
  }
  for (const BudgetKind kind : authority::kNetworkBudgets) {
    const auto next = to.budget(kind);
    auto& held = network_budgets_[kind];
    if (!is_smaller(next, held)) continue;
    held = next;
    narrowed.at_once.push_back(budget_line(kind, *next));
  }
  narrowed.cut = done->cut;
}

void BoxSession::narrow_cgroup(const authority::AuthoritySet& to,
                               std::optional<std::uint64_t> cpus_milli, NarrowedBox& narrowed) {
  plan::CgroupPlan& limits = settings_.cgroup;
  const RunningCgroup cgroup(init_, limits);
  if (const auto next = to.budget(BudgetKind::Memory); is_smaller(next, limits.memory_bytes)) {
    record(cgroup.lower_memory(*next), budget_line(BudgetKind::Memory, *next), limits.memory_bytes,
           *next, narrowed);
  }
  if (const auto next = to.budget(BudgetKind::Pids); is_smaller(next, limits.pids)) {
    record(cgroup.lower_pids(*next), budget_line(BudgetKind::Pids, *next), limits.pids, *next,
           narrowed);
  }
  if (is_smaller(cpus_milli, limits.cpus_milli)) {
    record(cgroup.lower_cpus(*cpus_milli),
           fmt::format("cpus={:.3g}", static_cast<double>(*cpus_milli) / 1000), limits.cpus_milli,
           *cpus_milli, narrowed);
  }
}

void BoxSession::narrow_watch(const authority::AuthoritySet& to, NarrowedBox& narrowed) {
  plan::Watch& watch = settings_.watch;
  if (const auto next = to.budget(BudgetKind::Output); is_smaller(next, watch.output_bytes)) {
    watch.output_bytes = next;
    narrowed.at_once.push_back(budget_line(BudgetKind::Output, *next));
  }
  const auto next = to.budget(BudgetKind::Wall);
  if (!next) return;
  const std::chrono::nanoseconds wall = std::chrono::milliseconds(*next);
  if (watch.wall && *watch.wall <= wall) return;
  watch.wall = wall;
  narrowed.at_once.push_back(budget_line(BudgetKind::Wall, *next));
  watch_wall();
}

NarrowedBox BoxSession::narrow(const authority::AuthoritySet& to,
                               std::optional<std::uint64_t> cpus_milli, egress::Existing existing) {
  NarrowedBox narrowed;
  if (!is_alive()) return narrowed;
  narrow_network(to, existing, narrowed);
  narrow_cgroup(to, cpus_milli, narrowed);
  narrow_watch(to, narrowed);
  return narrowed;
}

}  // namespace glovebox::session
