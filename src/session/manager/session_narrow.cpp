// What a reload of the policies does to sessions that run.
#include "authority/terms.h"
#include "request/network_authority.h"
#include "session/manager/operations.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace glovebox::session {
namespace {

using policy::PolicyChange;

const PolicyChange* find_change(std::span<const PolicyChange> changes, const PolicyOrigin& origin) {
  const auto found = std::ranges::find_if(changes, [&](const PolicyChange& change) {
    return change.file == origin.file && change.sandbox == origin.sandbox;
  });
  return found == changes.end() ? nullptr : &*found;
}

const policy::CompiledPolicy* find_policy(const policy::PolicySet& set,
                                          const PolicyOrigin& origin) {
  const policy::PolicyFile* file = set.find(origin.file);
  return file == nullptr ? nullptr : file->find(origin.sandbox);
}

std::optional<std::uint64_t> smaller(std::optional<std::uint64_t> left,
                                     std::optional<std::uint64_t> right) {
  if (!left || !right) return left ? left : right;
  return std::min(*left, *right);
}

// Whether a budget can be lowered while the box runs.
Result<void> check_narrows(const authority::Rule& rule) {
  using authority::BudgetKind;
  constexpr std::array kLowered = {BudgetKind::Memory, BudgetKind::Pids, BudgetKind::Wall,
                                   BudgetKind::Output};
  const auto budget = authority::find_budget(rule.capability);
  const bool is_lowered = budget && (authority::is_of_network(budget->kind) ||
                                     std::ranges::find(kLowered, budget->kind) != kLowered.end());
  if (is_lowered) return {};
  return fail(Code::Unsupported, "{}: cannot be narrowed in a box that runs; start another session",
              authority::to_text(rule));
}

// Whose box a session's is.
enum class BoxOwner : std::uint8_t {
  Session,  // its own
  Python,   // its own, with an interpreter: a wall budget is one operation's, not the box's
  Worker,   // of a worker with cells of other sessions, who must not feel what happens to one
};

BoxOwner owner_of_box(const BoxRequest& effective) {
  if (!effective.python) return BoxOwner::Session;
  return effective.backend == Backend::Cell ? BoxOwner::Worker : BoxOwner::Python;
}

bool is_about_box(BoxOwner owner, const authority::Rule& rule) {
  const auto budget = authority::find_budget(rule.capability);
  if (!budget || owner == BoxOwner::Session) return true;
  return owner == BoxOwner::Python && budget->kind != authority::BudgetKind::Wall;
}

// Refuses by name what would be taken from others too, or would mean something else.
Result<void> check_taken(BoxOwner owner, const SessionNarrowing& narrowing) {
  if (owner == BoxOwner::Worker) {
    const char* what = narrowing.network ? "capabilities" : "limits";
    return fail(Code::Unsupported,
                "{}: a cell shares its box with others and cannot be narrowed alone; start another "
                "session",
                what);
  }
  for (const authority::Rule& rule : narrowing.budgets.rules()) {
    TRY_VOID(check_narrows(rule));
    if (is_about_box(owner, rule)) continue;
    return fail(Code::Unsupported,
                "{}: of a Python session it bounds each operation, from the beginning; start "
                "another session",
                authority::to_text(rule));
  }
  return {};
}

// What of it a reload takes from the box.
authority::AuthoritySet part_of_box(BoxOwner owner, const authority::AuthoritySet& most) {
  std::vector<authority::Rule> rules = most.rules();
  std::erase_if(rules, [&](const authority::Rule& rule) { return !is_about_box(owner, rule); });
  // It was a set with these rules and more, so there are not too many.
  return authority::AuthoritySet::from_rules(rules).value_or(most);
}

// In the request, of which later boxes are made too.
void remember(BoxRequest& asked, const SessionNarrowing& narrowing) {
  asked.handed = asked.handed.unite(narrowing.budgets);
  asked.cpus_milli = smaller(asked.cpus_milli, narrowing.cpus_milli);
  if (!narrowing.network) return;
  asked.network_ceiling = asked.network_ceiling
                              ? asked.network_ceiling->attenuate(*narrowing.network)
                              : *narrowing.network;
}

void tell_narrowed(ManagerParts& parts, const SessionEntry& entry, const NarrowedBox& narrowed) {
  if (narrowed.at_once.empty() && narrowed.cut == 0) return;
  std::string detail = fmt::format("{}", fmt::join(narrowed.at_once, "; "));
  if (narrowed.cut > 0) detail += fmt::format("; {} connections cut", narrowed.cut);
  parts.registry.tell(EventKind::Narrowed, entry, std::move(detail));
}

// What the session would get if it was asked for again: the box keeps of its own what lies within.
NarrowedBox narrow_to(ManagerParts& parts, SessionEntry& entry, const policy::Policy& now,
                      egress::Existing existing) {
  const BoxRequest& asked = entry.record.info.effective;
  authority::AuthoritySet most = now.authority.unite(asked.handed);
  if (asked.ceiling) most = most.attenuate(*asked.ceiling);
  const BoxOwner owner = owner_of_box(asked);
  auto cpus = smaller(asked.cpus_milli, now.cpus_milli);
  if (owner == BoxOwner::Worker) cpus.reset();
  if (owner != BoxOwner::Session) most = part_of_box(owner, most);
  NarrowedBox narrowed = entry.live->narrow(most, cpus, existing);
  tell_narrowed(parts, entry, narrowed);
  return narrowed;
}

}  // namespace

Result<NarrowedBox> narrow_session(ManagerParts& parts, SessionEntry& entry,
                                   const SessionNarrowing& narrowing) {
  TRY_VOID(check_settled(entry));
  if (!entry.live || !entry.live->is_alive()) {
    return fail(Code::Os, "isolated session is not active: it has nothing to lose");
  }
  TRY_VOID(check_taken(owner_of_box(entry.record.info.effective), narrowing));
  if (narrowing.network && !entry.record.info.effective.published.empty()) {
    return fail(
        Code::Unsupported,
        "publish {}: a published port cannot be taken from a box that runs (end the session)",
        plan::to_text(entry.record.info.effective.published.front()));
  }
  authority::AuthoritySet most = narrowing.budgets;
  if (narrowing.network) {
    TRY(const authority::AuthoritySet network, network_part(*narrowing.network));
    most = most.unite(network);
  } else if (entry.plan && entry.plan->network) {
    TRY(const authority::AuthoritySet network, network_part(entry.plan->network->authority));
    most = most.unite(network);
  }
  NarrowedBox narrowed = entry.live->narrow(most, narrowing.cpus_milli, narrowing.existing);
  remember(entry.record.info.effective, narrowing);
  if (entry.asked) remember(*entry.asked, narrowing);
  parts.registry.put_later(entry);
  tell_narrowed(parts, entry, narrowed);
  return narrowed;
}

void narrow_started(ManagerParts& parts, SessionEntry& entry, const Prepared& prepared) {
  if (!prepared.origin || !parts.common.settings.policies) return;
  const auto set = parts.common.settings.policies->current();
  if (set == prepared.policies) return;
  if (const auto* now = find_policy(*set, *prepared.origin)) {
    (void)narrow_to(parts, entry, now->policy, egress::Existing::Keep);  // told as an event
  }
}

std::vector<NarrowedSession> narrow_sessions(ManagerParts& parts,
                                             std::span<const PolicyChange> changes,
                                             egress::Existing existing) {
  std::vector<NarrowedSession> all;
  if (!parts.common.settings.policies) return all;
  const auto set = parts.common.settings.policies->current();
  for (const auto& [id, entry] : parts.registry.entries()) {
    if (!entry->origin || !entry->live || !entry->live->is_alive()) continue;
    const PolicyChange* change = find_change(changes, *entry->origin);
    // What an earlier reload has left open can be cut by a later one.
    if (change == nullptr && existing == egress::Existing::Keep) continue;
    NarrowedSession one{id, entry->record.info.effective.policy.name, {}};
    if (const auto* now = find_policy(*set, *entry->origin)) {
      one.box = narrow_to(parts, *entry, now->policy, existing);
    } else if (change != nullptr) {
      one.box.for_new_boxes.emplace_back("the policy is gone; this box keeps what it has");
    }
    if (change != nullptr) {
      const std::vector<std::string>& later = change->narrowing.for_new_boxes;
      one.box.for_new_boxes.insert(one.box.for_new_boxes.end(), later.begin(), later.end());
    }
    if (one.box != NarrowedBox{}) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace glovebox::session
