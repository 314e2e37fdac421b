#include "workspace/commit/transaction.h"

#include "base/file.h"
#include "workspace/tree/printable.h"
#include "workspace/tree/tree_copy.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::workspace {
namespace {

Result<void> sync_filesystem(BorrowedFd fd) {
  if (::syncfs(fd.get()) != 0) return fail_os(errno, "sync the filesystem");
  return {};
}

Result<UniqueFd> make_subdirectory(BorrowedFd dir, const std::string& name) {
  if (::mkdirat(dir.get(), name.c_str(), 0700) != 0) return fail_os(errno, "make {}", name);
  return open_directory(dir, name);
}

// A directory that was added may be a whole tree: what an undo put back.
Result<void> learn_below(BorrowedFd dir, const std::string& path, std::size_t depth,
                         KnownNodes& known) {
  if (depth > kDeepestTree) return {};
  TRY(const auto entries, list_directory(dir));
  for (const Entry& entry : entries) {
    if (known.size() >= kMostKnown) return {};
    TRY(const Node node, look(dir, entry.name));
    const std::string below = join_path(path, entry.name);
    known.insert_or_assign(below, Known{.inode = node.inode, .changed = node.changed});
    if (!node.is(NodeType::Directory)) continue;
    TRY(const UniqueFd opened, open_directory(dir, entry.name));
    TRY_VOID(learn_below(opened, below, depth + 1, known));
  }
  return {};
}

}  // namespace

Result<Transaction> Transaction::begin(Layer& layer, BorrowedFd original,
                                       std::optional<std::size_t> undoes, Observer observer) {
  TRY(CommitRecord record, CommitRecord::make(layer, undoes));
  TRY(const std::string text, record.read("intent"));
  TRY(Intent intent, decode_intent(text));
  Transaction transaction(layer, std::move(record), original, std::move(intent),
                          std::move(observer));
  transaction.at("intent written");
  const auto opened = [&]() -> Result<void> {
    TRY(transaction.staging_, make_subdirectory(original, transaction.intent_.staging));
    TRY(transaction.new_, make_subdirectory(transaction.staging_, "new"));
    TRY(transaction.old_, make_subdirectory(transaction.staging_, "old"));
    return {};
  }();
  if (!opened) {
    // The first failure is the one to tell; what cannot be cleaned up here, a recovery will.
    (void)transaction.abandon();
    return unexpected(opened.error());
  }
  transaction.at("staging made");
  return transaction;
}

Result<Transaction> Transaction::resume(Layer& layer, BorrowedFd original, std::size_t number) {
  TRY(CommitRecord record, CommitRecord::open(layer, number));
  TRY(const std::string text, record.read("intent"));
  TRY(Intent intent, decode_intent(text));
  return Transaction(layer, std::move(record), original, std::move(intent), Observer());
}

Result<void> Transaction::open_staging() {
  TRY(staging_, open_directory(BorrowedFd(original_), intent_.staging));
  TRY(new_, open_directory(staging_, "new"));
  TRY(old_, open_directory(staging_, "old"));
  return {};
}

void Transaction::at(std::string_view moment) const {
  if (observer_) observer_(moment);
}

Result<void> Transaction::abandon() {
  TRY_VOID(remove_tree(BorrowedFd(original_), intent_.staging));
  return record_.forget();
}

Result<Outcomes> Transaction::run(std::vector<Step> steps) {
  steps_ = std::move(steps);
  at("staged");
  TRY_VOID(sync_filesystem(staging_));
  at("staged synced");
  TRY_VOID(record_.mark("steps", encode_steps(steps_)));
  at("decided");
  const auto done = do_all();
  if (done) return finish();
  TRY_VOID(record_.mark("back", ""));
  at("going back");
  const auto back = take_back();
  if (!back) {
    return fail(Code::Os, "{}; and it could not be taken back: {}", done.error().message,
                back.error().message);
  }
  return unexpected(done.error());
}

Result<void> Transaction::do_all() {
  for (std::size_t index = 0; index < steps_.size(); ++index) {
    TRY_VOID(do_step(index));
    at("step done");
  }
  return {};
}

// All steps are done: from here on there is no way back but an undo.
Result<Outcomes> Transaction::finish() {
  Outcomes outcomes;
  outcomes.reserve(steps_.size());
  for (const Step& step : steps_) {
    Node left;
    if (step.kind != StepKind::Remove) {
      TRY(const UniqueFd parent, open_parent(step.path));
      TRY(left, look(parent, split_path(step.path).second));
    }
    outcomes.push_back(left);
  }
  TRY_VOID(stash_backups());
  at("backups kept");
  TRY_VOID(sync_filesystem(BorrowedFd(original_)));
  TRY_VOID(sync_filesystem(record_.dir()));
  TRY_VOID(record_.mark("done", encode_outcomes(outcomes)));
  at("done");
  TRY_VOID(learn(outcomes));
  TRY_VOID(clean_up());
  return outcomes;
}

// One rename where layer and workspace are on one filesystem, else a copy that is whole or absent.
Result<void> Transaction::stash_backups() {
  TRY(const bool is_kept, record_.has("old"));
  if (is_kept) return {};
  if (::renameat2(staging_.get(), "old", record_.dir().get(), "old", RENAME_NOREPLACE) == 0) {
    return {};
  }
  if (errno != EXDEV) return fail_os(errno, "keep the backups");
  TRY_VOID(remove_tree(record_.dir(), "old.draft"));
  TRY_VOID(copy_tree(staging_, "old", record_.dir(), "old.draft"));
  TRY_VOID(sync_filesystem(record_.dir()));
  return move_new(record_.dir(), "old.draft", record_.dir(), "old");
}

// So that the next commit of this layer does not take this one for a change of another program.
Result<void> Transaction::learn(const Outcomes& outcomes) {
  KnownNodes known = layer_->base().known;
  for (std::size_t i = 0; i < steps_.size() && i < outcomes.size(); ++i) {
    const Step& step = steps_[i];
    known.erase(step.path);
    if (!outcomes[i].exists()) continue;
    known.emplace(step.path, Known{.inode = outcomes[i].inode, .changed = outcomes[i].changed});
    if (step.kind != StepKind::Add || !outcomes[i].is(NodeType::Directory)) continue;
    TRY(const UniqueFd dir, open_directory(BorrowedFd(original_), step.path));
    TRY_VOID(learn_below(dir, step.path, 0, known));
  }
  return layer_->save_known(std::move(known));
}

Result<void> Transaction::clean_up() {
  TRY_VOID(remove_tree(BorrowedFd(original_), intent_.staging));
  at("staging removed");
  return record_.close();
}

Result<void> Transaction::take_back() {
  for (std::size_t index = steps_.size(); index-- > 0;) {
    TRY_VOID(undo_step(index));
    at("step taken back");
  }
  TRY_VOID(sync_filesystem(BorrowedFd(original_)));
  at("taken back");
  TRY_VOID(learn_restored());
  return abandon();
}

// A rename gives a file another time of change, also one that puts it back: without this the next
// commit would take what was restored for a change of another program.
Result<void> Transaction::learn_restored() {
  KnownNodes known = layer_->base().known;
  for (const Step& step : steps_) {
    if (step.before.inode == 0) continue;
    const auto parent = open_parent(step.path);
    if (!parent) continue;  // its directory was never made, or another process has removed it
    TRY(const Node now, look(*parent, split_path(step.path).second));
    const bool is_restored = step.before.is(NodeType::Directory) ? same_file(now, step.before)
                                                                 : same_content(now, step.before);
    if (!is_restored) continue;
    known.insert_or_assign(step.path, Known{.inode = now.inode, .changed = now.changed});
  }
  return layer_->save_known(std::move(known));
}

Result<void> Transaction::recover() {
  TRY(const bool is_decided, record_.has("steps"));
  if (!is_decided) return abandon();
  TRY(const std::string text, record_.read("steps"));
  TRY(steps_, decode_steps(text));
  TRY(const bool is_done, record_.has("done"));
  if (is_done) {
    TRY(const std::string left, record_.read("done"));
    TRY(const Outcomes outcomes, decode_outcomes(left));
    TRY_VOID(learn(outcomes));
    return clean_up();
  }
  TRY(const bool is_going_back, record_.has("back"));
  TRY(const bool is_kept, record_.has("old"));
  if (is_kept) {  // the backups move after the last step, so all steps are done
    return finish().map([](const Outcomes&) {});
  }
  auto opened = open_staging();
  // Going back ends with the removal of the staging directory, which may be half gone.
  if (!opened && is_going_back) return abandon();
  if (!opened) return opened;
  if (is_going_back) return take_back();
  if (do_all()) return finish().map([](const Outcomes&) {});
  TRY_VOID(record_.mark("back", ""));
  return take_back();
}

Result<void> recover(Layer& layer, BorrowedFd original) {
  TRY(const auto numbers, list_commits(layer));
  for (const std::size_t number : numbers) {
    TRY(const CommitRecord record, CommitRecord::open(layer, number));
    TRY(const bool is_open, record.has("intent"));
    if (!is_open) {
      // Made and then stopped before the intent was whole: nothing else was done.
      TRY(const bool is_done, record.has("done"));
      if (!is_done) TRY_VOID(record.forget());
      continue;
    }
    TRY(Transaction transaction, Transaction::resume(layer, original, number));
    TRY_VOID(transaction.recover());
  }
  return {};
}

}  // namespace glovebox::workspace
