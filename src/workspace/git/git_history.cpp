#include "workspace/git/git_history.h"

#include <algorithm>
#include <queue>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kMostTags = 16;
// An ordinary commit is found to be new by its parent, without a look at any other branch.
constexpr std::size_t kFewCommits = 256;
constexpr std::size_t kMostTreesKept = 4096;
constexpr std::size_t kMostEntriesKept = 500'000;
constexpr std::size_t kMostNameBytes = std::size_t{128} << 20;  // of whole paths
constexpr std::size_t kLeastEntry = 24;                         // bytes: mode, name, zero, id

const TreeEntry* find_entry(const std::vector<TreeEntry>& entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const TreeEntry& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

enum class Standing : std::uint8_t { Unknown, Known };

// The commits on a walk towards the past, the latest first. What is reached from a known commit is
// known, also when it was met as an unknown one before: then it comes a second time.
class Frontier {
 public:
  void add(const ObjectId& id, std::int64_t time, Standing standing) {
    const auto [at, is_first] = standings_.emplace(id, standing);
    if (is_first) {
      if (standing == Standing::Unknown) ++unknown_;
    } else {
      if (standing == Standing::Unknown || at->second == Standing::Known) return;
      at->second = Standing::Known;
      if (!listed_.contains(id)) --unknown_;
    }
    queue_.emplace(time, id);
  }

  bool has_unknown() const { return unknown_ > 0; }

  ObjectId next() {
    const ObjectId id = queue_.top().second;
    queue_.pop();
    if (standings_.at(id) == Standing::Unknown && listed_.insert(id).second) {
      found_.push_back(id);
      --unknown_;
    }
    return id;
  }

  Standing standing(const ObjectId& id) const { return standings_.at(id); }

  std::vector<ObjectId> finish() {
    std::erase_if(found_, [&](const ObjectId& id) { return standing(id) == Standing::Known; });
    return std::move(found_);
  }

 private:
  using Dated = std::pair<std::int64_t, ObjectId>;
  std::priority_queue<Dated> queue_;
  std::unordered_map<ObjectId, Standing> standings_;
  std::unordered_set<ObjectId> listed_;
  std::vector<ObjectId> found_;
  std::size_t unknown_ = 0;  // in the queue
};

using Names = std::unordered_map<std::string_view, const TreeEntry*>;

Names names_of(const std::vector<TreeEntry>& entries) {
  Names names;
  for (const TreeEntry& entry : entries) names.emplace(entry.name, &entry);
  return names;
}

const TreeEntry* find_name(const Names& names, std::string_view name) {
  const auto found = names.find(name);
  return found == names.end() ? nullptr : found->second;
}

}  // namespace

struct GitHistory::Bases {
  std::vector<std::shared_ptr<const Entries>> trees;
  std::vector<Names> names;
};

Result<GitCommit> GitHistory::commit(const ObjectId& id) {
  if (const auto found = commits_.find(id); found != commits_.end()) return found->second;
  if (commits_.size() == kMostCommits) return fail(Code::Exhausted, "more history than is read");
  TRY(const auto object, store_.read(id, ObjectType::Commit));
  TRY(GitCommit parsed, parse_commit(object->data));
  return commits_.emplace(id, std::move(parsed)).first->second;
}

Result<std::shared_ptr<const GitHistory::Entries>> GitHistory::tree(const ObjectId& id) {
  if (const auto found = trees_.find(id); found != trees_.end()) return found->second;
  TRY(const auto object, store_.read(id, ObjectType::Tree));
  parsed_ += object->data.size() / kLeastEntry;
  if (parsed_ > kMostParsedEntries) return fail(Code::Exhausted, "more names than are read");
  TRY(Entries entries, parse_tree(object->data, store_.id_digits()));
  if (trees_.size() == kMostTreesKept || kept_ + entries.size() > kMostEntriesKept) {
    trees_.clear();
    kept_ = 0;
  }
  kept_ += entries.size();
  auto kept = std::make_shared<const Entries>(std::move(entries));
  trees_.emplace(id, kept);
  return kept;
}

Result<void> GitHistory::step(std::size_t count) {
  steps_ += count;
  if (steps_ > kMostSteps) return fail(Code::Exhausted, "more history than is read");
  return {};
}

std::vector<ObjectId> GitHistory::parents(const ObjectId& id, const GitCommit& commit) const {
  return shallow_.contains(id) ? std::vector<ObjectId>() : commit.parents;
}

Result<ObjectType> GitHistory::type_of(const ObjectId& id) {
  if (commits_.contains(id)) return ObjectType::Commit;
  TRY(const auto object, store_.read(id));
  return object->type;
}

Result<ObjectId> GitHistory::peel(const ObjectId& id) {
  ObjectId at = id;
  for (std::size_t i = 0; i < kMostTags; ++i) {
    if (commits_.contains(at)) return at;
    TRY(const auto object, store_.read(at));
    if (object->type != ObjectType::Tag) return at;
    TRY(at, parse_tag(object->data));
  }
  return fail(Code::Exhausted, "git object {}: too many tags of tags", id);
}

Result<std::optional<std::vector<ObjectId>>> GitHistory::few_new_commits(
    const ObjectId& tip, const std::unordered_set<ObjectId>& known) {
  std::vector<ObjectId> found;
  std::vector<ObjectId> waiting = {tip};
  std::unordered_set<ObjectId> seen;
  while (!waiting.empty()) {
    const ObjectId id = std::move(waiting.back());
    waiting.pop_back();
    TRY_VOID(step(1));
    if (known.contains(id) || !seen.insert(id).second) continue;
    TRY(const GitCommit read, commit(id));
    const auto before = parents(id, read);
    found.push_back(id);
    if (before.empty() || found.size() > kFewCommits) return std::optional<std::vector<ObjectId>>();
    waiting.insert(waiting.end(), before.begin(), before.end());
  }
  return std::optional(std::move(found));
}

Result<std::vector<ObjectId>> GitHistory::new_commits(const ObjectId& tip,
                                                      const std::vector<ObjectId>& known) {
  TRY_VOID(step(2 * known.size()));
  TRY(auto few, few_new_commits(tip, {known.begin(), known.end()}));
  if (few) return *std::move(few);
  Frontier frontier;
  for (const ObjectId& id : known) {
    // What the original has and cannot be read makes nothing known.
    const auto peeled = peel(id);
    if (!peeled) continue;
    if (const auto read = commit(*peeled)) frontier.add(*peeled, read->time, Standing::Known);
  }
  TRY(const GitCommit first, commit(tip));
  frontier.add(tip, first.time, Standing::Unknown);
  while (frontier.has_unknown()) {
    TRY_VOID(step(1));
    const ObjectId id = frontier.next();
    const Standing standing = frontier.standing(id);
    TRY(const GitCommit read, commit(id));
    for (const ObjectId& parent : parents(id, read)) {
      const auto before = commit(parent);
      if (before) frontier.add(parent, before->time, standing);
      if (!before && standing == Standing::Unknown) return tl::unexpected(before.error());
    }
  }
  return frontier.finish();
}

Result<void> GitHistory::visit_commit(const ObjectId& id, const Visit& visit) {
  TRY(const GitCommit read, commit(id));
  std::vector<ObjectId> bases;
  for (const ObjectId& parent : parents(id, read)) {
    TRY(const GitCommit before, commit(parent));
    bases.push_back(before.tree);
  }
  if (std::find(bases.begin(), bases.end(), read.tree) != bases.end()) return {};
  return compare("", read.tree, bases, visit, 0);
}

Result<void> GitHistory::visit_tree(const ObjectId& id, const Visit& visit) {
  return compare("", id, {}, visit, 0);
}

Result<void> GitHistory::compare(const std::string& path, const std::optional<ObjectId>& top,
                                 const std::vector<ObjectId>& bases, const Visit& visit,
                                 std::size_t depth) {
  if (depth > kDeepestTree) return fail(Code::Exhausted, "a tree that is too deep");
  auto entries = std::make_shared<const Entries>();
  if (top) {
    TRY(entries, tree(*top));
  }
  Bases before;
  for (const ObjectId& base : bases) {
    TRY(auto read, tree(base));
    TRY_VOID(step(read->size()));
    before.names.push_back(names_of(*read));
    before.trees.push_back(std::move(read));
  }
  for (const TreeEntry& entry : *entries) {
    TRY_VOID(compare_entry(path, entry, before, visit, depth));
  }
  if (bases.empty()) return {};
  const Names kept = names_of(*entries);
  for (const TreeEntry& entry : *before.trees.front()) {
    const auto has_it = [&](const Names& names) { return names.contains(entry.name); };
    if (has_it(kept) || !std::all_of(before.names.begin(), before.names.end(), has_it)) continue;
    TRY_VOID(visit_gone(path, entry, visit, depth));
  }
  return {};
}

Result<void> GitHistory::count_entry(const std::string& path, const TreeEntry& entry) {
  name_bytes_ += path.size() + entry.name.size();
  if (++entries_ > kMostTreeEntries || name_bytes_ > kMostNameBytes) {
    return fail(Code::Exhausted, "more names than are read");
  }
  if (path.size() + entry.name.size() + 1 > kLongestPath) {
    return fail(Code::Exhausted, "a path that is too long");
  }
  return {};
}

Result<void> GitHistory::compare_entry(const std::string& path, const TreeEntry& entry,
                                       const Bases& bases, const Visit& visit, std::size_t depth) {
  TRY_VOID(count_entry(path, entry));
  NameInTree name{.path = join_path(path, entry.name), .after = entry};
  std::vector<ObjectId> below;
  for (const Names& names : bases.names) {
    const TreeEntry* before = find_name(names, entry.name);
    if (before == nullptr) continue;
    if (before->mode == entry.mode && before->id == entry.id) return {};
    if (before->is_tree()) {
      below.push_back(before->id);
    } else if (!name.before) {
      name.before = *before;
    }
  }
  if (entry.is_tree()) return compare(name.path, entry.id, below, visit, depth + 1);
  visit(name);
  return {};
}

Result<void> GitHistory::visit_gone(const std::string& path, const TreeEntry& entry,
                                    const Visit& visit, std::size_t depth) {
  TRY_VOID(count_entry(path, entry));
  const std::string whole = join_path(path, entry.name);
  if (entry.is_tree()) return compare(whole, std::nullopt, {entry.id}, visit, depth + 1);
  visit({.path = whole, .before = entry});
  return {};
}

std::optional<TreeEntry> GitHistory::find(const ObjectId& id, std::string_view path) {
  const auto read = commit(id);
  if (!read) return std::nullopt;
  ObjectId at = read->tree;
  while (true) {
    const auto entries = tree(at);
    if (!entries) return std::nullopt;
    const std::size_t slash = path.find('/');
    const TreeEntry* entry = find_entry(**entries, path.substr(0, slash));
    if (entry == nullptr) return std::nullopt;
    if (slash == std::string_view::npos) return *entry;
    if (!entry->is_tree()) return std::nullopt;
    at = entry->id;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace glovebox::workspace
