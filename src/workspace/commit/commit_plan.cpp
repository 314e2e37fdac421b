#include "workspace/commit/commit_plan.h"

#include "workspace/commit/gate_rules.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace glovebox::workspace {
namespace {

class Planner {
 public:
  Planner(const std::vector<Change>& changes, const Chooser& chooser)
      : changes_(changes), is_taken_(changes.size(), false) {
    for (std::size_t i = 0; i < changes.size(); ++i) {
      is_taken_[i] = chooser.takes(changes[i].path);
    }
  }

  CommitPlan plan() {
    take_parents();
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      if (is_taken_[i]) plan_.taken.push_back(i);
    }
    plan_removals();
    for (const std::size_t i : plan_.taken) plan_arrival(i);
    for (auto i = plan_.taken.rbegin(); i != plan_.taken.rend(); ++i) plan_attributes(*i);
    return std::move(plan_);
  }

 private:
  // In reverse tree order a directory comes after everything below it.
  void take_parents() {
    std::unordered_set<std::string_view> needed;
    for (std::size_t i = changes_.size(); i-- > 0;) {
      const Change& change = changes_[i];
      const bool is_new_directory =
          change.kind == ChangeKind::Added && change.after.is(NodeType::Directory);
      if (is_new_directory && needed.contains(change.path)) is_taken_[i] = true;
      if (!is_taken_[i] || change.kind == ChangeKind::Deleted) continue;
      const std::size_t slash = change.path.rfind('/');
      if (slash != std::string::npos) {
        needed.insert(std::string_view(change.path).substr(0, slash));
      }
    }
  }

  // Whether every deletion below the directory at `index` is taken.
  bool goes_whole(std::size_t index) const {
    const std::string& path = changes_[index].path;
    for (std::size_t i = index + 1; i < changes_.size(); ++i) {
      if (changes_[i].path != path && !is_below(changes_[i].path, path)) break;
      if (changes_[i].kind == ChangeKind::Deleted && !is_taken_[i]) return false;
    }
    return true;
  }

  void plan_removals() {
    std::string_view gone;
    for (const std::size_t i : plan_.taken) {
      const Change& change = changes_[i];
      if (change.kind != ChangeKind::Deleted) continue;
      if (!gone.empty() && is_below(change.path, gone)) continue;
      const bool is_directory = change.before.is(NodeType::Directory);
      if (is_directory && !goes_whole(i)) continue;  // a file in it is to be kept
      Step step{.kind = StepKind::Remove, .path = change.path, .before = change.before};
      if (is_directory) {
        step.scope = Scope::Tree;
        gone = change.path;
      }
      plan_.steps.push_back({.step = std::move(step), .change = i});
    }
  }

  void plan_arrival(std::size_t i) {
    const Change& change = changes_[i];
    Step step{.kind = StepKind::Add, .path = change.path};
    if (change.kind == ChangeKind::Modified) {
      if (!change.aspects.content && !change.aspects.type) return;
      step.kind = StepKind::Replace;
      step.before = change.before;
    } else if (change.kind != ChangeKind::Added) {
      return;
    }
    plan_.steps.push_back({.step = std::move(step), .change = i});
  }

  void plan_attributes(std::size_t i) {
    const Change& change = changes_[i];
    Step step{.kind = StepKind::SetAttributes, .path = change.path};
    step.mode_after = change.after.mode & 01777U;
    if (change.kind == ChangeKind::Added) {
      // Made with its owner's permissions, so that it can be filled.
      const bool is_closed = (change.after.mode & 0700U) != 0700U;
      if (!change.after.is(NodeType::Directory) || !is_closed) return;
    } else {
      const bool is_replaced = change.aspects.content || change.aspects.type;
      if (change.kind != ChangeKind::Modified || is_replaced) return;
      if (!change.aspects.mode && !change.aspects.xattrs) return;
      step.before = change.before;
    }
    plan_.steps.push_back({.step = std::move(step), .change = i});
  }

  const std::vector<Change>& changes_;
  std::vector<bool> is_taken_;
  CommitPlan plan_;
};

}  // namespace

Result<Chooser> Chooser::parse(const Selection& selection) {
  Chooser chooser;
  TRY(chooser.only_, parse_globs(selection.only));
  TRY(chooser.reject_, parse_globs(selection.reject));
  TRY(chooser.accept_paths_, parse_globs(selection.accept_paths));
  chooser.accept_rules_ = selection.accept_rules;
  for (const std::string& word : selection.accept_classes) {
    TRY(const RuleClass accepted, parse_rule_class(word));
    chooser.accept_classes_.emplace_back(to_text(accepted));
  }
  return chooser;
}

bool Chooser::takes(std::string_view path) const {
  const auto selects = [&](const Glob& glob) { return glob.selects(path); };
  if (std::any_of(reject_.begin(), reject_.end(), selects)) return false;
  return only_.empty() || std::any_of(only_.begin(), only_.end(), selects);
}

bool Chooser::accepts(std::string_view path, std::string_view rule,
                      std::string_view rule_class) const {
  return std::find(accept_rules_.begin(), accept_rules_.end(), rule) != accept_rules_.end() ||
         std::find(accept_classes_.begin(), accept_classes_.end(), rule_class) !=
             accept_classes_.end() ||
         std::find(accept_names_.begin(), accept_names_.end(), path) != accept_names_.end() ||
         std::any_of(accept_paths_.begin(), accept_paths_.end(),
                     [&](const Glob& glob) { return glob.matches(path); });
}

void Chooser::learn_names(const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    const std::size_t names = std::erase_if(
        accept_paths_, [&](const Glob& glob) { return glob.pattern() == change.path; });
    if (names != 0) accept_names_.push_back(change.path);
  }
}

CommitPlan plan_commit(const std::vector<Change>& changes, Chooser& chooser) {
  chooser.learn_names(changes);
  return Planner(changes, chooser).plan();
}

}  // namespace glovebox::workspace
