#include "workspace/commit/commit.h"

#include "base/file.h"
#include "workspace/commit/gate_git.h"
#include "workspace/commit/gate_groups.h"
#include "workspace/commit/gate_places.h"
#include "workspace/commit/staging.h"
#include "workspace/diff/compare.h"
#include "workspace/git/git_config.h"
#include "workspace/git/git_ignore.h"
#include "workspace/tree/printable.h"

#include <algorithm>
#include <unordered_map>

namespace glovebox::workspace {
namespace {

Result<std::string> read_beneath(BorrowedFd root, const std::string& path) {
  TRY(const UniqueFd fd, open_regular_beneath(root, path));
  return read_fd(fd, kLargestGitConfig);
}

class Committer {
 public:
  Committer(Layer& layer, BorrowedFd original, const CommitOptions& options, GateRules rules,
            Chooser chooser)
      : layer_(layer),
        original_(original),
        options_(options),
        rules_(std::move(rules)),
        chooser_(std::move(chooser)),
        ignores_([this](const std::string& path) { return read_beneath(original_, path); }) {}

  Result<CommitResult> run() {
    TRY(uppers_, layer_.open_uppers());
    TRY(comparison_, compare(layer_, uppers_, original_));
    chooser_.learn_names(comparison_.changes);
    look_around();
    leave_out();
    plan_ = plan_commit(comparison_.changes, chooser_);
    judge_all();
    if (!result_.is_refused() && options_.act == Act::Apply && !plan_.steps.empty()) {
      TRY_VOID(apply());
    }
    if (!result_.is_refused()) {
      for (const std::size_t i : plan_.taken) result_.applied.push_back(comparison_.changes[i]);
    }
    result_.held = group_held(rules_, result_.held, comparison_.changes);
    return std::move(result_);
  }

 private:
  void look_around();
  void leave_out();
  const GateRule* rule_to_leave_out(const Change& change) const;
  void judge_all();
  void judge_one(const Change& change, const GateContents& contents);
  void judge_git(const OpenBrought& open);
  bool is_ignored(const std::string& path);
  Result<void> apply();
  Result<std::vector<Step>> stage(Transaction& transaction);
  void judge_staged(const Transaction& transaction);
  SetId set_id_of(const Change& change) const;
  Result<void> remember_directories();

  Layer& layer_;
  BorrowedFd original_;
  const CommitOptions& options_;
  GateRules rules_;
  Chooser chooser_;
  Uppers uppers_{std::vector<UniqueFd>()};
  Comparison comparison_;
  CommitPlan plan_;
  GateContext context_;
  bool is_repository_ = false;
  GitIgnores ignores_;
  CommitResult result_;
};

// What the gate has to know of the workspace, before anything is chosen.
void Committer::look_around() {
  const std::string& origin = layer_.facts().origin;
  context_ = {.origin = origin,
              .hooks = find_hook_places(read_beneath(original_, ".git/config"), origin),
              .aliases = names_above(rules_, origin, original_),
              .is_there = {}};
  for (Alias& alias : find_repositories(original_, comparison_.changes)) {
    context_.aliases.push_back(std::move(alias));
  }
  context_.is_there = [this](const std::string& path) {
    const auto change = std::lower_bound(
        comparison_.changes.begin(), comparison_.changes.end(), path,
        [](const Change& a, const std::string& b) { return tree_order(a.path, b); });
    const bool is_made = change != comparison_.changes.end() && change->path == path;
    return is_made ? true : open_regular_beneath(original_, path).has_value();
  };
  const auto own = look(original_, ".git");
  is_repository_ = own && own->exists();
}

bool Committer::is_ignored(const std::string& path) {
  return !is_repository_ || ignores_.ignores(path);
}

const GateRule* Committer::rule_to_leave_out(const Change& change) const {
  if (!change.after.exists() || change.kind == ChangeKind::Refused) return nullptr;
  for (const GateRule& rule : rules_) {
    if (rule.act == RuleAct::LeaveOut && rule.covers(change.path) &&
        !chooser_.accepts(change.path, rule.name, to_text(rule.rule_class))) {
      return &rule;
    }
  }
  return nullptr;
}

void Committer::leave_out() {
  std::unordered_map<const GateRule*, LeftOut> found;
  std::erase_if(comparison_.changes, [&](const Change& change) {
    const GateRule* rule = chooser_.takes(change.path) ? rule_to_leave_out(change) : nullptr;
    if (rule == nullptr) return false;
    LeftOut& left = found[rule];
    if (!change.after.is(NodeType::Directory)) left.paths.push_back(change.path);
    return true;
  });
  for (const GateRule& rule : rules_) {
    const auto left = found.find(&rule);
    if (left == found.end() || left->second.paths.empty()) continue;
    result_.left_out.push_back({rule.name, rule.why, std::move(left->second.paths)});
  }
}

// By what can be seen before anything is copied: most refusals end here.
void Committer::judge_all() {
  const GateContents contents{
      .before = [&](const Change& change) { return read_beneath(original_, change.path); },
      .after =
          [&](const Change& change) {
            return read_beneath(uppers_.at(change.level), change.path);
          }};
  for (const std::size_t i : plan_.taken) {
    const Change& change = comparison_.changes[i];
    if (!change.conflict.empty()) result_.conflicts.push_back({change.path, change.conflict});
    if (change.kind == ChangeKind::Refused) {
      result_.held.push_back({change.path, kRefusedRule, change.problem});
    }
    judge_one(change, contents);
  }
  std::unordered_map<std::string_view, const Change*> by_path;
  for (const std::size_t i : plan_.taken) {
    by_path.insert_or_assign(comparison_.changes[i].path, &comparison_.changes[i]);
  }
  judge_git([&](const std::string& path) {
    return open_regular_beneath(uppers_.at(by_path.at(path)->level), path);
  });
}

void Committer::judge_one(const Change& change, const GateContents& contents) {
  for (Held& held : judge(rules_, change, contents, context_)) {
    if (chooser_.accepts(held.path, held.rule, held.rule_class)) continue;
    const GateRule* gatherer = find_gathering_rule(
        rules_, held, change, [this](const std::string& path) { return is_ignored(path); });
    if (gatherer != nullptr) {
      if (chooser_.accepts(held.path, gatherer->name, to_text(gatherer->rule_class))) continue;
      held.gathered_by = gatherer->name;
    }
    result_.held.push_back(std::move(held));
  }
}

void Committer::judge_git(const OpenBrought& open) {
  std::vector<const Change*> taken;
  for (const std::size_t i : plan_.taken) taken.push_back(&comparison_.changes[i]);
  const GitGate gate{.rules = rules_, .context = context_, .original = original_};
  for (Held& held : judge_repositories(gate, taken, open)) {
    if (chooser_.accepts(held.path, held.rule, held.rule_class)) continue;
    result_.held.push_back(std::move(held));
  }
}

// The bits pass the gate only when they were accepted, and then they are wanted.
SetId Committer::set_id_of(const Change& change) const {
  const bool had_them = change.kind == ChangeKind::Modified && !change.aspects.content &&
                        (change.before.mode & 06000U) == (change.after.mode & 06000U);
  const bool is_accepted =
      chooser_.accepts(change.path, to_text(Condition::SetId), to_text(RuleClass::Files));
  return had_them || is_accepted ? SetId::Keep : SetId::Drop;
}

Result<std::vector<Step>> Committer::stage(Transaction& transaction) {
  TRY(const Node root, look(original_));
  const Stager stager(uppers_, original_, root, layer_.facts().prefix);
  std::vector<Step> steps;
  steps.reserve(plan_.steps.size());
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    PlannedStep& planned = plan_.steps[i];
    Change& change = comparison_.changes[planned.change];
    TRY_VOID(stager.stage(transaction.staged(), Transaction::staged_name(i), change,
                          set_id_of(change), planned.step));
    steps.push_back(planned.step);
  }
  return steps;
}

// What will be put in place is ours by now, and the box cannot change it any more.
void Committer::judge_staged(const Transaction& transaction) {
  std::unordered_map<std::string_view, std::size_t> staged;
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const GateContents contents{
        .before = [&](const Change& change) { return read_beneath(original_, change.path); },
        .after =
            [&](const Change&) {
              return read_beneath(transaction.staged(), Transaction::staged_name(i));
            }};
    const StepKind kind = plan_.steps[i].step.kind;
    if (kind == StepKind::Remove || kind == StepKind::SetAttributes) continue;
    judge_one(comparison_.changes[plan_.steps[i].change], contents);
    staged.insert_or_assign(plan_.steps[i].step.path, i);
  }
  judge_git([&](const std::string& path) {
    const auto found = staged.find(path);
    // Only its mode changes.
    if (found == staged.end()) return open_regular_beneath(original_, path);
    return open_regular_beneath(transaction.staged(), Transaction::staged_name(found->second));
  });
}

Result<void> Committer::apply() {
  TRY_VOID(remember_directories());  // which they are survives a crash in the middle
  TRY(Transaction transaction,
      Transaction::begin(layer_, original_, std::nullopt, options_.observer));
  const auto steps = stage(transaction);
  if (steps) judge_staged(transaction);
  if (!steps || result_.is_refused()) {
    auto abandoned = transaction.abandon();
    if (!steps) return unexpected(steps.error());
    return abandoned;
  }
  TRY_VOID(transaction.run(*steps).map([](const Outcomes&) {}));
  result_.number = transaction.number();
  return remember_directories();
}

// The transaction has recorded what its steps left; this adds the directories on the way. A name
// that another process changes between the last step and this look is taken for ours; files never
// are.
Result<void> Committer::remember_directories() {
  KnownNodes known = layer_.base().known;
  for (const SameDirectory& same : comparison_.same_directories) {
    const auto dir = open_directory_beneath(original_, same.path);
    if (!dir) continue;  // removed by this commit
    TRY(const Node node, look(*dir));
    const std::int64_t changed = same.names == Names::Same ? node.changed : kNamesMayDiffer;
    known.insert_or_assign(same.path, Known{.inode = node.inode, .changed = changed});
  }
  return layer_.save_known(std::move(known));
}

}  // namespace

std::string to_text(const Conflict& conflict) {
  return fmt::format("conflict {}: {}", printable(conflict.path), conflict.why);
}

std::string to_text(const LeftOut& left_out) {
  const std::size_t more = left_out.paths.size() - 1;
  return fmt::format("left out {}{} [{}]: {}; --accept-rule {} takes it over",
                     printable(left_out.paths.front()),
                     more == 0 ? "" : fmt::format(" and {} more", more), left_out.rule,
                     left_out.why, left_out.rule);
}

Result<CommitResult> commit(Layer& layer, BorrowedFd original, const CommitOptions& options) {
  TRY(const UniqueFd lock, lock_commits(layer));
  TRY_VOID(recover(layer, original));
  TRY(Chooser chooser, Chooser::parse(options.selection));
  GateRules rules;
  if (options.rules) {
    rules = *options.rules;
  } else {
    TRY(rules, builtin_gate_rules());
  }
  return Committer(layer, original, options, std::move(rules), std::move(chooser)).run();
}

}  // namespace glovebox::workspace
