#include "policy/policy_store.h"

#include "authority/terms.h"
#include "policy/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace glovebox::policy {
namespace {

using authority::Effect;
using authority::Rule;

// Judged by the broker each time, so a change reaches boxes that run.
bool is_decided_anew(const authority::Capability& capability) {
  return std::holds_alternative<authority::ConnectTCP>(capability) ||
         std::holds_alternative<authority::ResolveName>(capability) ||
         std::holds_alternative<authority::ListenTCP>(capability);
}

// Built into the box, or counted by each of its processes for itself.
bool is_fixed_at_start(authority::BudgetKind kind) {
  using authority::BudgetKind;
  return kind == BudgetKind::Cpu || kind == BudgetKind::Disk || kind == BudgetKind::Inodes ||
         kind == BudgetKind::OpenFiles;
}

std::string lost(const Rule& rule) {
  return fmt::format("no longer: {}", authority::to_text(Rule{Effect::Allow, rule.capability}));
}

// What was allowed and is not: at once as denials, the rest only as lines.
void take_grants(const authority::AuthoritySet& gone, Narrowing& result, std::vector<Rule>& cut) {
  for (const Rule& rule : gone.rules()) {
    const bool anew = is_decided_anew(rule.capability);
    if (rule.effect == Effect::Allow) {
      (anew ? result.at_once : result.for_new_boxes).push_back(lost(rule));
    }
    // Silence inside what is gone is what was never allowed or still is; it must not be denied.
    if (anew)
      cut.push_back({rule.effect == Effect::Allow ? Effect::Deny : rule.effect, rule.capability});
  }
}

// Denials reach what was handed in beside the policy as well.
void take_denials(const Policy& before, const Policy& after, Narrowing& result,
                  std::vector<Rule>& cut) {
  const std::vector<Rule> known = before.authority.rules();
  for (const Rule& rule : after.authority.rules()) {
    if (rule.effect != Effect::Deny) continue;
    if (std::find(known.begin(), known.end(), rule) != known.end()) continue;
    const bool anew = is_decided_anew(rule.capability);
    (anew ? result.at_once : result.for_new_boxes).push_back(authority::to_text(rule));
    if (anew) cut.push_back(rule);
  }
}

void take_budgets(const Policy& before, const Policy& after, Narrowing& result,
                  std::vector<Rule>& cut) {
  for (const authority::BudgetInfo& info : authority::kBudgets) {
    const auto held = before.authority.budget(info.kind);
    const auto next = after.authority.budget(info.kind);
    if (held == next) continue;
    const bool is_smaller = next && (!held || *next < *held) && !is_fixed_at_start(info.kind);
    const std::string line =
        next ? fmt::format("{}={}", info.word, authority::amount_to_text(info.kind, *next))
             : fmt::format("{}: no limit", info.word);
    (is_smaller ? result.at_once : result.for_new_boxes).push_back(line);
    if (!is_smaller) continue;
    auto budget = authority::make_budget(info.kind, *next);
    GLOVEBOX_CHECK(budget.has_value());
    cut.push_back({Effect::Allow, *std::move(budget)});
  }
}

void add_lines(const PolicyDifference& gained, const PolicyDifference& gone, Narrowing& result) {
  const auto add = [&](std::string line) { result.for_new_boxes.push_back(std::move(line)); };
  for (const Rule& rule : gained.authority.grants.rules()) {
    if (rule.effect == Effect::Allow) add(authority::to_text(rule));
  }
  for (const PathRule& rule : gained.granted) add(to_text(rule));
  for (const PathRule& rule : gained.no_longer_denied)
    add(fmt::format("no longer: {}", to_text(rule)));
  for (const PathRule& rule : gone.granted) add(fmt::format("no longer: {}", to_text(rule)));
  for (const PathRule& rule : gone.no_longer_denied) add(to_text(rule));
  for (const std::string& setting : gained.settings) add(setting);
  for (const std::string& setting : gone.settings) add(fmt::format("no longer: {}", setting));
}

Result<void, Diagnostics> compare_sandboxes(const PolicyFile* before, const PolicyFile& after,
                                            std::vector<PolicyChange>& changes) {
  for (const CompiledPolicy& each : after.sandboxes) {
    const CompiledPolicy* old = before == nullptr ? nullptr : before->find(each.policy.name);
    if (old == nullptr) {
      changes.push_back({after.file, each.policy.name, PolicyChange::Kind::Added, {}});
    } else if (old->policy != each.policy) {
      auto narrowed = narrowing(old->policy, each.policy);
      if (!narrowed) return tl::unexpected(about_file(after.file, narrowed.error().message));
      changes.push_back(
          {after.file, each.policy.name, PolicyChange::Kind::Changed, *std::move(narrowed)});
    }
  }
  return {};
}

void add_removed(const PolicyFile& before, const PolicyFile* after,
                 std::vector<PolicyChange>& changes) {
  for (const CompiledPolicy& each : before.sandboxes) {
    if (after != nullptr && after->find(each.policy.name) != nullptr) continue;
    changes.push_back({before.file, each.policy.name, PolicyChange::Kind::Removed, {}});
  }
}

Result<std::vector<PolicyChange>, Diagnostics> compare(const PolicySet& before,
                                                       const PolicySet& after) {
  std::vector<PolicyChange> changes;
  for (const PolicyFile& file : after.files()) {
    TRY_VOID(compare_sandboxes(before.find(file.file), file, changes));
  }
  for (const PolicyFile& file : before.files()) {
    add_removed(file, after.find(file.file), changes);
  }
  return changes;
}

// All documents, sorted by name, or everything that is wrong with any of them.
Result<std::vector<PolicyFile>, Diagnostics> compile_all(std::span<const NamedText> documents) {
  std::vector<PolicyFile> files;
  Diagnostics problems;
  std::set<std::string_view> names;
  for (const NamedText& document : documents) {
    auto compiled = compile(document.text, document.name);
    if (!names.insert(document.name).second) {
      compiled = tl::unexpected(about_file(document.name, "two documents have this name"));
    }
    if (compiled) {
      files.push_back(*std::move(compiled));
    } else {
      problems.insert(problems.end(), compiled.error().begin(), compiled.error().end());
    }
  }
  if (!problems.empty()) return tl::unexpected(std::move(problems));
  std::sort(files.begin(), files.end(),
            [](const PolicyFile& left, const PolicyFile& right) { return left.file < right.file; });
  return files;
}

}  // namespace

const PolicyFile* PolicySet::find(std::string_view name) const {
  const auto found = std::find_if(files_.begin(), files_.end(),
                                  [&](const PolicyFile& each) { return each.file == name; });
  return found == files_.end() ? nullptr : &*found;
}

Result<Narrowing> narrowing(const Policy& before, const Policy& after) {
  Narrowing result;
  const PolicyDifference gone = difference(after, before);
  std::vector<Rule> cut;
  take_grants(gone.authority.grants, result, cut);
  take_denials(before, after, result, cut);
  take_budgets(before, after, result, cut);
  add_lines(difference(before, after), gone, result);
  TRY(result.cut, authority::AuthoritySet::from_rules(cut));
  return result;
}

std::shared_ptr<const PolicySet> PolicyStore::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

Result<std::vector<PolicyChange>, Diagnostics> PolicyStore::reload(
    std::span<const NamedText> documents) {
  auto next = std::make_shared<PolicySet>();
  TRY(next->files_, compile_all(documents));
  const std::lock_guard lock(mutex_);
  TRY(std::vector<PolicyChange> changes, compare(*current_, *next));
  current_ = std::move(next);
  return changes;
}

}  // namespace glovebox::policy
