// The journal of commits: what makes one whole or nothing, also when the machine stops.
//
// A commit is a list of steps. Everything that the steps put in place is first made under a staging
// directory in the root of the workspace (so that putting it in place is a rename) and synced. Then
// the steps are written to the journal and synced: that is the moment of decision. Then they are
// done. Each step can be asked again whether it was done, by what is in the staging directory, so
// after a crash the same list is carried on.
//
//   commits/N/intent   from before the first act until after the last; names the staging directory
//   commits/N/steps    the decision; without it a recovery throws the staging directory away
//   commits/N/back     a step could not be done: the others are being taken back
//   commits/N/done     all done; what each step left, so that undo can see later changes
//   commits/N/old/     what was replaced or removed, by the number of the step
//   commits/N/undoes   only of an undo: which commit it takes back
//
// In the workspace, while a commit runs: .glovebox-LAYER-N/new/I is what step I puts in place, and
// .glovebox-LAYER-N/old/I what it displaced.
#pragma once

#include "workspace/layer/layer.h"

namespace glovebox::workspace {

enum class StepKind : std::uint8_t {
  Remove,         // moves what is at the path away
  Add,            // puts a new name there
  Replace,        // exchanges what is there for what was staged, in one rename
  SetAttributes,  // changes mode and attributes of what stays
};

enum class Scope : std::uint8_t { One, Tree };  // Remove: a directory must be empty, or goes whole

struct Step {
  StepKind kind = StepKind::Remove;
  std::string path{};
  Scope scope = Scope::One;
  Node before{};                   // what must be there when the step begins
  std::uint64_t staged_inode = 0;  // Add, Replace: tells what was staged from what was displaced
  unsigned mode_after = 0;         // SetAttributes
  Xattrs xattrs_before{};
  Xattrs xattrs_after{};

  friend bool operator==(const Step&, const Step&) = default;
};

// What a step left at its path when the commit was done. Missing for Remove.
using Outcomes = std::vector<Node>;

struct Intent {
  std::string staging{};                // a name in the workspace's root
  std::optional<std::size_t> undoes{};  // the commit that this one takes back

  friend bool operator==(const Intent&, const Intent&) = default;
};

std::string encode_intent(const Intent& intent);
Result<Intent> decode_intent(std::string_view text);
std::string encode_steps(const std::vector<Step>& steps);
Result<std::vector<Step>> decode_steps(std::string_view text);
std::string encode_outcomes(const Outcomes& outcomes);
Result<Outcomes> decode_outcomes(std::string_view text);

// One commit's directory in the layer.
class CommitRecord {
 public:
  CommitRecord(UniqueFd commits, UniqueFd dir, std::size_t number)
      : commits_(std::move(commits)), dir_(std::move(dir)), number_(number) {}

  // The next number, with its intent written and synced.
  static Result<CommitRecord> make(const Layer& layer, std::optional<std::size_t> undoes);
  static Result<CommitRecord> open(const Layer& layer, std::size_t number);

  std::size_t number() const { return number_; }
  BorrowedFd dir() const { return dir_; }

  Result<bool> has(const char* name) const;
  Result<void> mark(const char* name, std::string_view text) const;
  Result<std::string> read(const char* name) const;
  // The end of everything: without an intent there is nothing to recover.
  Result<void> close() const;
  // Removes the record of a commit that never was.
  Result<void> forget() const;

 private:
  UniqueFd commits_;
  UniqueFd dir_;
  std::size_t number_;
};

// The numbers of all commits of a layer, ascending.
Result<std::vector<std::size_t>> list_commits(const Layer& layer);
Result<bool> has_unfinished_commit(const Layer& layer);
// One commit, undo or recovery at a time: holds as long as the descriptor lives.
Result<UniqueFd> lock_commits(const Layer& layer);

}  // namespace glovebox::workspace
