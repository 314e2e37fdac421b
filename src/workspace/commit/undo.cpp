#include "workspace/commit/commit.h"
#include "workspace/tree/printable.h"
#include "workspace/tree/tree_copy.h"

#include <algorithm>
#include <set>

#include <fcntl.h>

namespace glovebox::workspace {
namespace {

constexpr std::string_view kLater = "it was changed after the commit";

// One commit and the way back from it.
class Undoer {
 public:
  Undoer(Layer& layer, BorrowedFd original, CommitRecord record)
      : layer_(layer), original_(original), record_(std::move(record)) {}

  Result<UndoResult> run(const Observer& observer) {
    result_.number = record_.number();
    TRY(const std::string steps_text, record_.read("steps"));
    TRY(done_, decode_steps(steps_text));
    TRY(const std::string outcomes_text, record_.read("done"));
    TRY(outcomes_, decode_outcomes(outcomes_text));
    if (outcomes_.size() != done_.size()) return fail(Code::Invalid, "the journal is broken");
    for (std::size_t i = done_.size(); i-- > 0;) TRY_VOID(plan_back(i));
    if (!result_.conflicts.empty()) return std::move(result_);
    TRY_VOID(apply(observer));
    return std::move(result_);
  }

 private:
  Result<void> plan_back(std::size_t index);
  bool is_as_left(const Step& step, const Node& left, const Node& now) const;
  static Step reverse_of(const Step& step, const Node& now);
  void add_back(std::size_t index, Step step);
  bool is_known(const std::string& path, const Node& now) const;
  std::vector<std::string> quiet_directories() const;
  Result<void> remember(const std::vector<std::string>& directories);
  Result<void> apply(const Observer& observer);
  Result<void> stage(Transaction& transaction);

  Layer& layer_;
  BorrowedFd original_;
  CommitRecord record_;
  std::vector<Step> done_;
  Outcomes outcomes_;
  std::vector<Step> back_;              // what undoes the commit
  std::vector<std::size_t> back_from_;  // which of its steps each takes back
  UndoResult result_;
};

// Whether we ourselves left it like this: by undoing a later commit, for example.
bool Undoer::is_known(const std::string& path, const Node& now) const {
  const auto known = layer_.base().known.find(path);
  return known != layer_.base().known.end() && now.exists() &&
         known->second == Known{.inode = now.inode, .changed = now.changed};
}

// Directories that the steps will change and in which no other program has changed a name so far.
std::vector<std::string> Undoer::quiet_directories() const {
  std::set<std::string> candidates;
  for (const Step& step : back_) {
    candidates.insert(step.path);
    candidates.insert(split_path(step.path).first);
  }
  std::vector<std::string> quiet;
  for (const std::string& path : candidates) {
    const auto dir = open_directory_beneath(original_, path);
    const auto node = dir ? look(*dir) : Result<Node>(Node{});
    if (node && is_known(path, *node)) quiet.push_back(path);
  }
  return quiet;
}

Result<void> Undoer::remember(const std::vector<std::string>& directories) {
  KnownNodes known = layer_.base().known;
  for (const std::string& path : directories) {
    const auto dir = open_directory_beneath(original_, path);
    if (!dir) continue;  // removed by this undo
    TRY(const Node node, look(*dir));
    known.insert_or_assign(path, Known{.inode = node.inode, .changed = node.changed});
  }
  return layer_.save_known(std::move(known));
}

// Whether what is there now is what the commit left. A directory's times change with what is in it;
// whether it is empty is seen when it is removed.
bool Undoer::is_as_left(const Step& step, const Node& left, const Node& now) const {
  if (left.is(NodeType::Directory)) {
    const auto known = layer_.base().known.find(step.path);
    const bool is_ours = known != layer_.base().known.end() && known->second.inode == now.inode;
    return now.is(NodeType::Directory) && now.mode == left.mode &&
           (same_file(now, left) || is_ours);
  }
  if (now == left || is_known(step.path, now)) return true;
  // What the commit removed may have been replaced by another of its own steps, undone before.
  return step.kind == StepKind::Remove &&
         std::any_of(back_.begin(), back_.end(), [&](const Step& other) {
           return other.kind == StepKind::Remove && other.path == step.path;
         });
}

Result<void> Undoer::plan_back(std::size_t index) {
  const Step& step = done_[index];
  const auto [parent_path, name] = split_path(step.path);
  const auto parent = open_directory_beneath(original_, parent_path);
  Node now;
  if (parent) {
    TRY(now, look(*parent, name));
  }
  if (!is_as_left(step, outcomes_[index], now)) {
    result_.conflicts.push_back({step.path, std::string(kLater)});
    return {};
  }
  add_back(index, reverse_of(step, now));
  const bool was_closed =
      step.before.is(NodeType::Directory) && (step.before.mode & 0700U) != 0700U;
  if (step.kind == StepKind::Remove && was_closed) {
    // It had to be opened to be moved away.
    add_back(index,
             {.kind = StepKind::SetAttributes, .path = step.path, .mode_after = step.before.mode});
  }
  result_.restored.push_back(step.path);
  return {};
}

Step Undoer::reverse_of(const Step& step, const Node& now) {
  Step back{.kind = StepKind::Add, .path = step.path};
  if (step.kind == StepKind::Add || step.kind == StepKind::Replace) {
    back.kind = step.kind == StepKind::Add ? StepKind::Remove : StepKind::Replace;
    back.before = now;
  } else if (step.kind == StepKind::SetAttributes) {
    back.kind = StepKind::SetAttributes;
    back.before = now;
    // A directory that was added and then closed is opened again, so that it can be emptied.
    const bool is_added = step.before.inode == 0;
    back.mode_after = is_added ? now.mode | 0700U : step.before.mode;
    back.xattrs_before = step.xattrs_after;
    back.xattrs_after = step.xattrs_before;
  }
  return back;
}

void Undoer::add_back(std::size_t index, Step step) {
  back_.push_back(std::move(step));
  back_from_.push_back(index);
}

Result<void> Undoer::stage(Transaction& transaction) {
  TRY(const UniqueFd old, open_directory(record_.dir(), "old"));
  for (std::size_t i = 0; i < back_.size(); ++i) {
    if (back_[i].kind != StepKind::Add && back_[i].kind != StepKind::Replace) continue;
    const std::string from = Transaction::staged_name(back_from_[i]);
    const std::string to = Transaction::staged_name(i);
    TRY_VOID(copy_tree(old, from, transaction.staged(), to));
    TRY(const Node made, look(transaction.staged(), to));
    back_[i].staged_inode = made.inode;
  }
  return {};
}

Result<void> Undoer::apply(const Observer& observer) {
  const std::vector<std::string> quiet = quiet_directories();
  TRY(Transaction transaction, Transaction::begin(layer_, original_, record_.number(), observer));
  auto staged = stage(transaction);
  if (!staged) {
    // The first failure is the one to tell.
    (void)transaction.abandon();
    return staged;
  }
  TRY_VOID(transaction.run(back_).map([](const Outcomes&) {}));
  return remember(quiet);
}

// The newest commit that is done, is no undo, and was not undone.
Result<CommitRecord> find_last(const Layer& layer) {
  TRY(const auto numbers, list_commits(layer));
  std::vector<std::size_t> undone;
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    TRY(CommitRecord record, CommitRecord::open(layer, *number));
    TRY(const bool is_done, record.has("done"));
    TRY(const bool is_undo, record.has("undoes"));
    if (is_undo) {
      TRY(const std::string text, record.read("undoes"));
      TRY(const Intent intent, decode_intent(text));
      if (intent.undoes && is_done) undone.push_back(*intent.undoes);
      continue;
    }
    const bool is_undone = std::find(undone.begin(), undone.end(), *number) != undone.end();
    if (is_done && !is_undone) return record;
  }
  return fail(Code::NotFound, "layer {} has no commit to undo", layer.facts().id);
}

}  // namespace

Result<UndoResult> undo(Layer& layer, BorrowedFd original, const Observer& observer) {
  TRY(const UniqueFd lock, lock_commits(layer));
  TRY_VOID(recover(layer, original));
  TRY(CommitRecord record, find_last(layer));
  return Undoer(layer, original, std::move(record)).run(observer);
}

}  // namespace glovebox::workspace
