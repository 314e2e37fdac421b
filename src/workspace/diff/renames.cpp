#include "base/file.h"
#include "workspace/diff/diff.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

namespace glovebox::workspace {
namespace {

// A guess at equality; what decides is the comparison of all bytes.
std::optional<std::size_t> fingerprint(BorrowedFd root, const std::string& path) {
  const auto fd = open_regular_beneath(root, path);
  if (!fd) return std::nullopt;
  const auto text = read_fd(*fd, kMostRenameBytes);
  if (!text) return std::nullopt;
  return std::hash<std::string>()(*text);
}

bool are_equal(const Uppers& uppers, BorrowedFd original, const Change& added,
               const Change& deleted) {
  const auto a = open_regular_beneath(uppers.at(added.level), added.path);
  const auto b = open_regular_beneath(original, deleted.path);
  if (!a || !b) return false;
  return same_bytes(*a, *b, added.after.size).value_or(false);
}

class Pairer {
 public:
  Pairer(std::vector<Change> changes, const Uppers& uppers, BorrowedFd original)
      : changes_(std::move(changes)), uppers_(uppers), original_(original) {}

  std::vector<Change> run() {
    collect();
    if (deleted_.empty() || added_.empty()) return std::move(changes_);
    for (const auto& [size, added] : added_) {
      const auto found = deleted_.find(size);
      if (found != deleted_.end()) pair_size(added, found->second);
    }
    std::erase_if(changes_, [](const Change& change) { return change.path.empty(); });
    sort_changes(changes_);
    return std::move(changes_);
  }

 private:
  using Indexes = std::vector<std::size_t>;

  void collect() {
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      const Change& change = changes_[i];
      if (change.kind == ChangeKind::Deleted && change.before.is(NodeType::File)) {
        if (change.before.size > 0) deleted_[change.before.size].push_back(i);
      } else if (change.kind == ChangeKind::Added && change.after.is(NodeType::File)) {
        if (change.after.size > 0) added_[change.after.size].push_back(i);
      }
    }
  }

  // Whether the two sides of one size may be read: all of them, or none.
  bool can_afford(std::size_t files, std::uint64_t size) {
    if (candidates_ + files > kMostRenameCandidates) return false;
    if (size > kMostRenameBytes || bytes_ + files * size > kMostRenameBytes) return false;
    candidates_ += files;
    bytes_ += files * size;
    return true;
  }

  void pair_size(const Indexes& added, const Indexes& deleted) {
    if (!can_afford(added.size() + deleted.size(), changes_[added[0]].after.size)) return;
    std::multimap<std::size_t, std::size_t> by_print;
    for (const std::size_t i : deleted) {
      if (const auto print = fingerprint(original_, changes_[i].path)) by_print.emplace(*print, i);
    }
    for (const std::size_t i : added) {
      const auto print = fingerprint(uppers_.at(changes_[i].level), changes_[i].path);
      if (!print) continue;
      const auto candidate = by_print.find(*print);
      if (candidate == by_print.end()) continue;
      if (!are_equal(uppers_, original_, changes_[i], changes_[candidate->second])) continue;
      join(changes_[i], changes_[candidate->second]);
      by_print.erase(candidate);
    }
  }

  static void join(Change& added, Change& deleted) {
    added.kind = ChangeKind::Renamed;
    added.from = deleted.path;
    added.before = deleted.before;
    added.aspects.mode = added.before.mode != added.after.mode;
    if (added.conflict.empty()) added.conflict = deleted.conflict;
    deleted.path.clear();  // marks it as used
  }

  std::vector<Change> changes_;
  const Uppers& uppers_;
  BorrowedFd original_;
  std::map<std::uint64_t, Indexes> added_;
  std::map<std::uint64_t, Indexes> deleted_;
  std::size_t candidates_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

std::vector<Change> pair_renames(std::vector<Change> changes, const Uppers& uppers,
                                 BorrowedFd original) {
  return Pairer(std::move(changes), uppers, original).run();
}

Result<std::vector<Change>> diff(const Layer& layer, const Uppers& uppers, BorrowedFd original) {
  TRY(Comparison comparison, compare(layer, uppers, original));
  return pair_renames(std::move(comparison.changes), uppers, original);
}

}  // namespace glovebox::workspace
