#include "workspace/commit.h"

#include "base/file.h"
#include "workspace/compare.h"
#include "workspace/git_config.h"
#include "workspace/staging.h"
#include "workspace/text.h"

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
        chooser_(std::move(chooser)) {}

  Result<CommitResult> run() {
    TRY(uppers_, layer_.open_uppers());
    TRY(comparison_, compare(layer_, uppers_, original_));
    plan_ = plan_commit(comparison_.changes, chooser_);
    judge_all();
    if (!result_.is_refused() && options_.act == Act::Apply && !plan_.steps.empty()) {
      TRY_VOID(apply());
    }
    if (!result_.is_refused()) {
      for (const std::size_t i : plan_.taken) result_.applied.push_back(comparison_.changes[i]);
    }
    return std::move(result_);
  }

 private:
  void judge_all();
  void judge_one(const Change& change, const GateContents& contents);
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
  CommitResult result_;
};

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
}

void Committer::judge_one(const Change& change, const GateContents& contents) {
  const GateContext context{.origin = layer_.facts().origin};
  for (Held& held : judge(rules_, change, contents, context)) {
    if (!chooser_.accepts(held.path, held.rule)) result_.held.push_back(std::move(held));
  }
}

// The bits pass the gate only when they were accepted, and then they are wanted.
SetId Committer::set_id_of(const Change& change) const {
  const bool had_them = change.kind == ChangeKind::Modified && !change.aspects.content &&
                        (change.before.mode & 06000U) == (change.after.mode & 06000U);
  const bool is_accepted = chooser_.accepts(change.path, to_text(Condition::SetId));
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
  }
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
// that somebody changes between the last step and this look is taken for ours; files never are.
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
