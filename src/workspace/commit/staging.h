// Makes, in the staging directory, what the steps of a commit will put in place.
#pragma once

#include "workspace/commit/transaction.h"
#include "workspace/diff/change.h"
#include "workspace/layer/upper_stack.h"
#include "workspace/tree/tree_copy.h"

namespace glovebox::workspace {

enum class SetId : std::uint8_t { Drop, Keep };

// Copies from the upper what a change leaves: content, mode, time and user.* attributes from the
// box; owner and access list from the file that is replaced, or the owner of the workspace's root.
// Never an owner from the box. The box may still be running: a file that changes while it is copied
// is Code::Denied. `change` is brought up to date with what was copied (a link's target, mode,
// size), so that the gate judges that.
class Stager {
 public:
  Stager(const Uppers& uppers, BorrowedFd original, const Node& root, MarkPrefix prefix)
      : uppers_(uppers), original_(original), root_(root), prefix_(prefix) {}

  // Fills step.staged_inode (Add, Replace) or the step's attributes (SetAttributes).
  Result<void> stage(BorrowedFd staged, const std::string& name, Change& change, SetId set_id,
                     Step& step) const;

 private:
  Result<Attributes> attributes_of(BorrowedFd dir, const std::string& name, const Node& node,
                                   const Change& change, SetId set_id) const;
  Result<Xattrs> box_xattrs(BorrowedFd dir, const std::string& name, const Node& node) const;
  Result<void> make(BorrowedFd dir, const std::string& from, BorrowedFd staged,
                    const std::string& name, Change& change, const Attributes& attributes) const;

  const Uppers& uppers_;
  BorrowedFd original_;
  Node root_;
  MarkPrefix prefix_;
};

}  // namespace glovebox::workspace
