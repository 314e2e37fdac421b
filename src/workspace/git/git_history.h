// Which names the commits of a repository bring that it did not have.
//
// The commits are those that are reached from some tips and not from the known ones, as far as the
// dates in them tell: with dates that lie, a known commit is looked at as if it were unknown, never
// the other way round. Each is compared with its parents, so that a name counts only where it came
// in or changed.
#pragma once

#include "workspace/git/git_store.h"

#include <unordered_map>
#include <unordered_set>

namespace glovebox::workspace {

// What is read of a history at most. Beyond, it is Code::Exhausted.
inline constexpr std::size_t kMostCommits = 50'000;
inline constexpr std::size_t kMostTreeEntries = 1'000'000;
inline constexpr std::size_t kMostSteps = 10'000'000;         // of all walks together
inline constexpr std::size_t kMostParsedEntries = 4'000'000;  // of all trees that are read

struct NameInTree {
  std::string path{};
  std::optional<TreeEntry> before{};  // nothing: it is new
  std::optional<TreeEntry> after{};   // nothing: it is gone
};
using Visit = std::function<void(const NameInTree& name)>;

class GitHistory {
 public:
  // `shallow` are commits whose parents are known to be missing.
  GitHistory(GitStore& store, std::unordered_set<ObjectId> shallow)
      : store_(store), shallow_(std::move(shallow)) {}

  // The commit, tree or blob that a tag stands for, or the object itself.
  Result<ObjectId> peel(const ObjectId& id);
  // The commits that are reached from `tip` and from none of `known`, the newest first.
  Result<std::vector<ObjectId>> new_commits(const ObjectId& tip,
                                            const std::vector<ObjectId>& known);
  // The names in which the commit differs from all of its parents.
  Result<void> visit_commit(const ObjectId& commit, const Visit& visit);
  // All names of a tree, as if all were new.
  Result<void> visit_tree(const ObjectId& tree, const Visit& visit);
  Result<ObjectType> type_of(const ObjectId& id);

  // What is at a path in the tree of a commit, if anything can be read there.
  std::optional<TreeEntry> find(const ObjectId& commit, std::string_view path);

 private:
  using Entries = std::vector<TreeEntry>;
  struct Bases;

  Result<GitCommit> commit(const ObjectId& id);
  Result<void> step(std::size_t count);
  Result<std::shared_ptr<const Entries>> tree(const ObjectId& id);
  std::vector<ObjectId> parents(const ObjectId& id, const GitCommit& commit) const;
  // Whether all ways back from the tip end in known ones soon.
  Result<std::optional<std::vector<ObjectId>>> few_new_commits(
      const ObjectId& tip, const std::unordered_set<ObjectId>& known);
  Result<void> compare(const std::string& path, const std::optional<ObjectId>& tree,
                       const std::vector<ObjectId>& bases, const Visit& visit, std::size_t depth);
  Result<void> count_entry(const std::string& path, const TreeEntry& entry);
  Result<void> compare_entry(const std::string& path, const TreeEntry& entry, const Bases& bases,
                             const Visit& visit, std::size_t depth);
  Result<void> visit_gone(const std::string& path, const TreeEntry& entry, const Visit& visit,
                          std::size_t depth);

  GitStore& store_;
  std::unordered_set<ObjectId> shallow_;
  std::unordered_map<ObjectId, GitCommit> commits_;
  std::unordered_map<ObjectId, std::shared_ptr<const Entries>> trees_;
  std::size_t entries_ = 0;
  std::size_t parsed_ = 0;  // entries of trees
  std::size_t kept_ = 0;    // of those, in trees_
  std::size_t name_bytes_ = 0;
  std::size_t steps_ = 0;
};

}  // namespace glovebox::workspace
