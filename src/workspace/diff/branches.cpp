#include "workspace/diff/branches.h"

#include "workspace/diff/compare.h"
#include "workspace/tree/xattrs.h"

#include <map>
#include <set>

namespace glovebox::workspace {
namespace {

// What a branch has at a path.
struct State {
  Node node;
  std::size_t level = 0;
  std::string target;
};

class Branch {
 public:
  static Result<Branch> open(const Layer& layer) {
    TRY(const Uppers uppers, layer.open_uppers());
    TRY(const UniqueFd original, layer.open_original());
    TRY(const Comparison comparison, compare(layer, uppers, original));
    Branch branch;
    TRY(branch.trees_, open_branch(layer));
    for (const Change& change : comparison.changes) {
      if (change.kind == ChangeKind::Refused) continue;  // nothing is shown there by any branch
      branch.paths_.insert(change.path);
      // At one path a deletion stands before what takes its place.
      branch.states_.insert_or_assign(change.path,
                                      State{change.after, change.level, change.target_after});
    }
    return branch;
  }

  const std::set<std::string>& paths() const { return paths_; }
  BorrowedFd tree(std::size_t level) const { return trees_.at(level); }

  // What was not changed is as in the original.
  Result<State> look_at(const std::string& path) const {
    const auto found = states_.find(path);
    if (found != states_.end()) return found->second;
    State state;
    state.level = trees_.size() - 1;
    const auto [above, name] = split_path(path);
    const auto dir = open_directory_beneath(tree(state.level), above);
    if (!dir) return state;  // nor is there a directory that it could be in
    TRY(state.node, look(*dir, name));
    if (state.node.is(NodeType::Symlink)) {
      TRY(state.target, read_link(*dir, name));
    }
    return state;
  }

 private:
  Uppers trees_{std::vector<UniqueFd>()};
  std::set<std::string> paths_;
  std::map<std::string, State> states_;
};

Result<Xattrs> xattrs_at(BorrowedFd root, const std::string& path) {
  const auto [above, name] = split_path(path);
  TRY(const UniqueFd dir, open_directory_beneath(root, above));
  return read_plain_xattrs(dir, name);
}

class BranchComparer {
 public:
  BranchComparer(const Branch& from, const Branch& to) : from_(from), to_(to) {}

  Result<std::vector<Change>> run() {
    std::set<std::string> paths = from_.paths();
    paths.insert(to_.paths().begin(), to_.paths().end());
    for (const std::string& path : paths) TRY_VOID(visit(path));
    sort_changes(changes_);
    return std::move(changes_);
  }

 private:
  Result<void> visit(const std::string& path) {
    TRY(const State before, from_.look_at(path));
    TRY(const State after, to_.look_at(path));
    if (!before.node.exists() && !after.node.exists()) return {};
    if (same_file(before.node, after.node)) return {};
    Change change{.kind = ChangeKind::Modified, .path = path};
    change.before = before.node;
    change.after = after.node;
    change.target_before = before.target;
    change.target_after = after.target;
    change.level_before = before.level;
    change.level = after.level;
    if (!before.node.exists()) change.kind = ChangeKind::Added;
    if (!after.node.exists()) change.kind = ChangeKind::Deleted;
    if (change.kind == ChangeKind::Modified) {
      TRY(change.aspects, differing(change));
      if (!change.aspects.any()) return {};
    }
    changes_.push_back(std::move(change));
    return {};
  }

  Result<Aspects> differing(const Change& change) const {
    Aspects aspects;
    aspects.type = change.before.type != change.after.type;
    if (aspects.type) return aspects;
    if (change.after.is(NodeType::Symlink)) {
      aspects.content = change.target_before != change.target_after;
      return aspects;
    }
    aspects.mode = ((change.before.mode ^ change.after.mode) & 01777U) != 0;
    TRY(const Xattrs before, xattrs_at(from_.tree(change.level_before), change.path));
    TRY(const Xattrs after, xattrs_at(to_.tree(change.level), change.path));
    aspects.xattrs = before != after;
    if (!change.after.is(NodeType::File)) return aspects;
    aspects.content = change.before.size != change.after.size || change.after.size > kMostCompared;
    if (aspects.content || change.after.size == 0) return aspects;
    TRY(const UniqueFd a, open_regular_beneath(from_.tree(change.level_before), change.path));
    TRY(const UniqueFd b, open_regular_beneath(to_.tree(change.level), change.path));
    TRY(const bool is_same, same_bytes(a, b, change.after.size));
    aspects.content = !is_same;
    return aspects;
  }

  const Branch& from_;
  const Branch& to_;
  std::vector<Change> changes_;
};

}  // namespace

Result<Uppers> open_branch(const Layer& layer) {
  std::vector<UniqueFd> trees;
  TRY(UniqueFd top, layer.open_upper());
  trees.push_back(std::move(top));
  for (const std::string& id : layer.facts().below) {
    TRY(UniqueFd frozen, layer.open_frozen(id));
    trees.push_back(std::move(frozen));
  }
  TRY(UniqueFd original, layer.open_original());
  trees.push_back(std::move(original));
  return Uppers(std::move(trees));
}

Result<std::vector<Change>> diff_branches(const Layer& from, const Layer& to) {
  if (from.facts().origin != to.facts().origin) {
    return fail(Code::Invalid, "they are about different directories: {} and {}",
                from.facts().origin, to.facts().origin);
  }
  TRY(const Branch a, Branch::open(from));
  TRY(const Branch b, Branch::open(to));
  return BranchComparer(a, b).run();
}

}  // namespace glovebox::workspace
