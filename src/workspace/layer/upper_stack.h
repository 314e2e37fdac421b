// The trees that hold what a box wrote: its layer's upper, and the frozen ones that it stands on.
//
// A session that was forked writes into a layer of its own, over layers that no box writes to any
// more. What it changed is what all of them say together, read as the kernel reads a stack of lower
// directories: of a name the topmost tree that has it counts; a whiteout hides the name in all
// trees below and in the original; a directory is joined with those of the same name below it, down
// to the first that is opaque or to the first tree that has something else at that name.
#pragma once

#include "workspace/tree/overlay_marks.h"

#include <vector>

namespace glovebox::workspace {

// Descriptors of the trees, the topmost first. One tree is the common case, and converts.
class Uppers {
 public:
  Uppers(BorrowedFd only) : trees_{only} {}
  Uppers(const UniqueFd& only) : trees_{only} {}
  // Owns them.
  explicit Uppers(std::vector<UniqueFd> trees);

  std::size_t size() const { return trees_.size(); }
  BorrowedFd at(std::size_t level) const { return trees_.at(level); }

 private:
  std::vector<UniqueFd> owned_;
  std::vector<BorrowedFd> trees_;
};

// A name in a directory of the stack.
struct MergedEntry {
  std::string name;
  NodeType type = NodeType::Missing;
  std::size_t part = 0;  // which of the directory's parts has it, the topmost that does
};

// One directory of the stack, open in every tree that takes part in it.
class MergedDirectory {
 public:
  MergedDirectory() = default;
  // Code::Denied when a root has a mark that the kernel puts on none.
  static Result<MergedDirectory> open_root(const Uppers& uppers, MarkPrefix prefix);

  // In the order of their bytes.
  Result<std::vector<MergedEntry>> list() const;

  BorrowedFd dir(const MergedEntry& entry) const { return parts_.at(entry.part).dir; }
  Within within(const MergedEntry& entry) const { return parts_.at(entry.part).within; }
  std::size_t level(const MergedEntry& entry) const { return parts_.at(entry.part).level; }

  // Adds to what the topmost tree says of a name (`marks`) what the others do: whether it began as
  // a copy of the original, and of a directory, whether anything hides the original's.
  Result<void> complete(const MergedEntry& entry, const Node& node, Marks& marks) const;
  // The directory of that name, joined.
  Result<MergedDirectory> descend(const MergedEntry& entry, const Marks& marks) const;

 private:
  struct Part {
    UniqueFd dir;
    Within within = Within::PlainDirectory;
    std::size_t level = 0;
  };
  // What a tree below the topmost has at a name.
  struct Beneath {
    std::size_t part = 0;
    Node node;
    Marks marks;
  };
  Result<std::vector<Beneath>> look_beneath(const MergedEntry& entry) const;

  std::vector<Part> parts_;
  MarkPrefix prefix_ = MarkPrefix::User;
};

}  // namespace glovebox::workspace
