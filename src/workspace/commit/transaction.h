// Does the steps of one commit, or takes them back.
//
// Every change of the workspace is one rename, chmod or setxattr relative to a directory that was
// opened beneath the workspace's root without following links. A step looks at what it is about to
// displace before and, since another process may be faster, again after the rename: when another
// file came out than was expected, it is put back and the commit is taken back.
//
// Syncing: what was staged is synced with one syncfs(2) before the journal's decision, and what the
// steps did with another one before the journal says done. That is as safe as an fsync of each
// file: no staged file has a name in the workspace before the first syncfs has returned, and until
// `done` is on the disk a recovery carries on all steps from the staging directory.
#pragma once

#include "workspace/layer/journal.h"

#include <functional>

namespace glovebox::workspace {

// Called between acts with the name of the moment. Tests stop the process there.
using Observer = std::function<void(std::string_view)>;

class Transaction {
 public:
  // Begins: writes the intent and makes the staging directory.
  static Result<Transaction> begin(Layer& layer, BorrowedFd original,
                                   std::optional<std::size_t> undoes, Observer observer);
  // Takes up a commit that was interrupted.
  static Result<Transaction> resume(Layer& layer, BorrowedFd original, std::size_t number);

  // Where step I's new content is made, under the name staged_name(I).
  BorrowedFd staged() const { return new_; }
  static std::string staged_name(std::size_t step) { return fmt::format("{}", step); }
  std::size_t number() const { return record_.number(); }

  // Nothing of the workspace was touched: leaves no trace.
  Result<void> abandon();

  // The decision and everything after it. When a step cannot be done all are taken back, and the
  // error is that step's.
  Result<Outcomes> run(std::vector<Step> steps);

  // Ends an interrupted commit: before the decision as if it had never been, after it by carrying
  // on, or by going back if that was under way.
  Result<void> recover();

 private:
  Transaction(Layer& layer, CommitRecord record, BorrowedFd original, Intent intent,
              Observer observer)
      : layer_(&layer),
        record_(std::move(record)),
        original_(original.get()),
        intent_(std::move(intent)),
        observer_(std::move(observer)) {}

  Result<void> open_staging();
  Result<UniqueFd> open_parent(const std::string& path);
  void at(std::string_view moment) const;

  Result<void> do_all();
  Result<Outcomes> finish();
  Result<void> take_back();
  Result<void> stash_backups();
  Result<void> learn(const Outcomes& outcomes);
  Result<void> learn_restored();
  Result<void> clean_up();

  Result<void> do_step(std::size_t index);
  Result<void> do_add(std::size_t index, BorrowedFd parent, const std::string& name);
  Result<void> do_replace(std::size_t index, BorrowedFd parent, const std::string& name);
  Result<void> do_remove(std::size_t index, BorrowedFd parent, const std::string& name);

  Result<void> undo_step(std::size_t index);
  Result<bool> was_begun(std::size_t index);
  Result<void> undo_add(std::size_t index, BorrowedFd parent, const std::string& name);
  Result<void> undo_replace(std::size_t index, BorrowedFd parent, const std::string& name);
  Result<void> undo_remove(std::size_t index, BorrowedFd parent, const std::string& name);

  Layer* layer_;
  CommitRecord record_;
  int original_;  // the caller's, for as long as this object lives
  Intent intent_;
  Observer observer_;
  UniqueFd staging_;
  UniqueFd new_;
  UniqueFd old_;
  std::vector<Step> steps_;
};

// Ends every interrupted commit of the layer. Nothing to do is success.
Result<void> recover(Layer& layer, BorrowedFd original);

}  // namespace glovebox::workspace
