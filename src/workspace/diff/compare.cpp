#include "workspace/diff/compare.h"

#include "workspace/tree/printable.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <unordered_set>

#include <unistd.h>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kCompareBlock = std::size_t{128} << 10;
// Room for this many changes costs nothing before it is used; growing the list would copy it.
constexpr std::size_t kReservedChanges = 1 << 17;
constexpr std::string_view kMovedOn = "the original changed since the session began";
constexpr std::string_view kGone = "it was removed from the original since the session began";
constexpr std::string_view kClock =
    "the clock was set back since the session began, so changes of the original cannot be ruled "
    "out";

// One directory of the box's, with its counterpart in the original if there is one.
struct Frame {
  MergedDirectory upper;
  UniqueFd original;
  std::optional<BaseDirectory> base;  // there is one exactly if there is an original
  std::string path;
  std::vector<MergedEntry> entries;
  std::size_t next = 0;
};

const BaseDirectory& base_of(const Frame& frame) {
  GLOVEBOX_CHECK(frame.base.has_value());
  return *frame.base;
}

// One name of a frame: what is there in the box, and in the original.
struct Pair {
  const Frame& frame;
  const MergedEntry& entry;
  const std::string& name;
  const std::string& path;
  Node up;
  Node original;
  Marks marks;

  BorrowedFd upper() const { return frame.upper.dir(entry); }
  std::size_t level() const { return frame.upper.level(entry); }
};

// Errors that belong to one entry, not to the walk.
bool is_about_entry(const Error& error) {
  if (error.code == Code::Denied) return true;
  switch (error.os_errno) {
    case ENOENT:
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENOTDIR:
    case EXDEV:
    case ENAMETOOLONG: return true;
    default: return false;
  }
}

class Comparer {
 public:
  Comparer(const Layer& layer, const Uppers& uppers, BorrowedFd original)
      : layer_(layer), uppers_(uppers), original_(original) {}

  Result<Comparison> run() {
    TRY(const StartStamp end, read_start_stamp());
    clock_was_set_back_ = was_set_back(layer_.base().stamp, end);
    TRY_VOID(push_root());
    found_.changes.reserve(kReservedChanges);
    while (!stack_.empty()) {
      Frame& frame = stack_.back();
      if (frame.next == frame.entries.size()) {
        stack_.pop_back();
        continue;
      }
      TRY_VOID(visit(frame, frame.entries[frame.next++]));
      if (found_.changes.size() > kMostChanges) {
        return fail(Code::Exhausted, "more than {} changes", kMostChanges);
      }
    }
    sort_changes(found_.changes);
    return std::move(found_);
  }

 private:
  Result<void> push_root();
  Result<void> visit(const Frame& frame, const MergedEntry& entry);
  Result<Marks> marks_of(const Frame& frame, const MergedEntry& entry, const Node& node);
  Result<void> visit_pair(const Pair& pair);
  Result<void> visit_directory(const Pair& pair);
  Result<void> visit_leaf(const Pair& pair);
  Result<void> descend(const Pair& pair, UniqueFd original);
  Result<Aspects> differing(const Pair& pair, Change& change);
  Result<bool> xattrs_differ(const Pair& pair);
  Result<void> delete_hidden(const Frame& frame);
  Result<void> delete_below(BorrowedFd dir, const std::string& name, const std::string& path,
                            const Node& node, const BaseDirectory& base, std::size_t depth);
  void refuse(const std::string& path, std::string problem);
  void note_same(const std::string& path, const BaseDirectory& base);
  std::string conflict_of(const Pair& pair) const;
  std::string moved_on(const BaseDirectory& base, const std::string& path, const Node& node) const;

  const Layer& layer_;
  const Uppers& uppers_;
  BorrowedFd original_;
  bool clock_was_set_back_ = false;
  std::deque<Frame> stack_;
  Comparison found_;
};

Result<void> Comparer::push_root() {
  Frame root;
  TRY(root.upper, MergedDirectory::open_root(uppers_, layer_.facts().prefix));
  TRY(root.original, open_directory(original_, "."));
  TRY(const Node node, look(root.original));
  TRY(const BaseDirectory base, BaseDirectory::root(layer_.base(), node));
  root.base = base;
  TRY(root.entries, root.upper.list());
  note_same("", base);
  stack_.push_back(std::move(root));
  return {};
}

Result<void> Comparer::visit(const Frame& frame, const MergedEntry& entry) {
  std::string path = join_path(frame.path, entry.name);
  const std::size_t before = found_.changes.size();
  auto visited = [&]() -> Result<void> {
    if (path.size() > kLongestPath) return fail(Code::Denied, "the path is too long");
    Pair pair{.frame = frame,
              .entry = entry,
              .name = entry.name,
              .path = path,
              .up = {},
              .original = {},
              .marks = {}};
    TRY(pair.up, look(pair.upper(), entry.name));
    if (!pair.up.exists()) return {};  // gone since the directory was listed
    if (frame.original) {
      TRY(pair.original, look(frame.original, entry.name));
    }
    TRY(pair.marks, marks_of(frame, entry, pair.up));
    if (pair.marks.forged.empty()) TRY_VOID(frame.upper.complete(entry, pair.up, pair.marks));
    return visit_pair(pair);
  }();
  if (visited || !is_about_entry(visited.error())) return visited;
  found_.changes.resize(before);  // all of an entry or none of it
  refuse(path, visited.error().message);
  return {};
}

// In a directory that only the box has there is nothing to hide, so a file's marks mean nothing and
// are not asked for: that saves a call for each file of a large new tree. A commit looks at them.
Result<Marks> Comparer::marks_of(const Frame& frame, const MergedEntry& entry, const Node& node) {
  const bool is_plain = node.is(NodeType::File) || node.is(NodeType::Symlink);
  const Within within = frame.upper.within(entry);
  if (!frame.original && is_plain && within == Within::PlainDirectory) return Marks{};
  return read_marks(frame.upper.dir(entry), entry.name, node, layer_.facts().prefix, within);
}

Result<void> Comparer::visit_pair(const Pair& pair) {
  if (!pair.marks.forged.empty()) {
    return fail(Code::Denied, "forged overlay mark: {}", pair.marks.forged);
  }
  if (pair.original.exists() && pair.original.device != layer_.base().device) {
    return fail(Code::Denied, "the original has a mount point here");
  }
  const bool replaces_directory =
      pair.original.is(NodeType::Directory) && !pair.up.is(NodeType::Directory);
  if (pair.marks.is_whiteout || replaces_directory) {
    if (pair.original.exists()) {
      TRY_VOID(delete_below(pair.frame.original, pair.name, pair.path, pair.original,
                            base_of(pair.frame), 0));
    }
    if (pair.marks.is_whiteout) return {};
  }
  if (pair.up.is(NodeType::Directory)) return visit_directory(pair);
  return visit_leaf(pair);
}

Result<void> Comparer::visit_directory(const Pair& pair) {
  Change change{.kind = ChangeKind::Added, .path = pair.path, .after = pair.up};
  change.level = pair.level();
  UniqueFd original;
  if (pair.original.is(NodeType::Directory)) {
    TRY(original, open_directory(pair.frame.original, pair.name));
    change.kind = ChangeKind::Modified;
    change.before = pair.original;
    // Set-id bits of directories are never taken over, and a copy in a user namespace may lose
    // them.
    change.aspects.mode = ((pair.up.mode ^ pair.original.mode) & 01777U) != 0;
    TRY(change.aspects.xattrs, xattrs_differ(pair));
  } else if (pair.original.exists()) {
    TRY_VOID(delete_below(pair.frame.original, pair.name, pair.path, pair.original,
                          base_of(pair.frame), 0));
  } else if (pair.marks.is_copied_up) {
    change.conflict = kGone;
  }
  if (change.kind == ChangeKind::Added || change.aspects.any()) {
    if (change.conflict.empty()) change.conflict = conflict_of(pair);
    found_.changes.push_back(std::move(change));
  }
  return descend(pair, std::move(original));
}

Result<void> Comparer::descend(const Pair& pair, UniqueFd original) {
  if (stack_.size() >= kDeepestTree) {
    return fail(Code::Denied, "more than {} directories deep", kDeepestTree);
  }
  Frame frame;
  TRY(frame.upper, pair.frame.upper.descend(pair.entry, pair.marks));
  TRY(frame.entries, frame.upper.list());
  frame.path = pair.path;
  if (original) {
    frame.base = base_of(pair.frame).child(pair.path, pair.original);
    frame.original = std::move(original);
    note_same(pair.path, base_of(frame));
    if (pair.marks.is_opaque) TRY_VOID(delete_hidden(frame));
  }
  stack_.push_back(std::move(frame));
  return {};
}

// An opaque directory hides every name of the original that it does not have itself.
Result<void> Comparer::delete_hidden(const Frame& frame) {
  std::unordered_set<std::string_view> kept;
  for (const MergedEntry& entry : frame.entries) kept.insert(entry.name);
  TRY(const auto entries, list_directory(frame.original));
  for (const Entry& entry : entries) {
    if (kept.contains(entry.name)) continue;
    TRY(const Node node, look(frame.original, entry.name));
    if (!node.exists()) continue;
    TRY_VOID(delete_below(frame.original, entry.name, join_path(frame.path, entry.name), node,
                          base_of(frame), stack_.size()));
  }
  return {};
}

Result<void> Comparer::delete_below(BorrowedFd dir, const std::string& name,
                                    const std::string& path, const Node& node,
                                    const BaseDirectory& base, std::size_t depth) {
  if (depth > kDeepestTree) return fail(Code::Denied, "more than {} directories deep", depth);
  if (node.device != layer_.base().device) {
    return fail(Code::Denied, "the original has a mount point here");
  }
  Change change{.kind = ChangeKind::Deleted, .path = path, .before = node};
  change.conflict = moved_on(base, path, node);
  if (node.is(NodeType::Symlink)) {
    TRY(change.target_before, read_link(dir, name));
  }
  found_.changes.push_back(std::move(change));
  if (found_.changes.size() > kMostChanges) {
    return fail(Code::Exhausted, "more than {} changes", kMostChanges);
  }
  if (!node.is(NodeType::Directory)) return {};
  TRY(const UniqueFd opened, open_directory(dir, name));
  TRY(const auto entries, list_directory(opened));
  const BaseDirectory below = base.child(path, node);
  for (const Entry& entry : entries) {
    TRY(const Node child, look(opened, entry.name));
    if (!child.exists()) continue;
    TRY_VOID(
        delete_below(opened, entry.name, join_path(path, entry.name), child, below, depth + 1));
  }
  return {};
}

Result<void> Comparer::visit_leaf(const Pair& pair) {
  Change change{.kind = ChangeKind::Added, .path = pair.path, .after = pair.up};
  change.level = pair.level();
  change.has_capability = pair.marks.has_capability;
  if (pair.up.is(NodeType::Symlink)) {
    TRY(change.target_after, read_link(pair.upper(), pair.name));
  }
  const bool has_before = pair.original.exists() && !pair.original.is(NodeType::Directory);
  if (has_before) {
    change.kind = ChangeKind::Modified;
    change.before = pair.original;
    TRY(change.aspects, differing(pair, change));
    if (!change.aspects.any() && !change.has_capability) return {};
  }
  change.conflict = conflict_of(pair);
  found_.changes.push_back(std::move(change));
  return {};
}

Result<Aspects> Comparer::differing(const Pair& pair, Change& change) {
  Aspects aspects;
  aspects.type = pair.up.type != pair.original.type;
  if (pair.original.is(NodeType::Symlink)) {
    TRY(change.target_before, read_link(pair.frame.original, pair.name));
  }
  if (aspects.type) return aspects;
  if (pair.up.is(NodeType::Symlink)) {
    aspects.content = change.target_before != change.target_after;
    return aspects;
  }
  aspects.mode = pair.up.mode != pair.original.mode;
  if (!pair.up.is(NodeType::File)) return aspects;
  TRY(aspects.xattrs, xattrs_differ(pair));
  aspects.content = pair.up.size != pair.original.size || pair.up.size > kMostCompared;
  if (aspects.content || pair.up.size == 0) return aspects;
  TRY(const UniqueFd up, open_regular(pair.upper(), pair.name));
  TRY(const UniqueFd original, open_regular(pair.frame.original, pair.name));
  TRY(const bool is_same, same_bytes(up, original, pair.up.size));
  aspects.content = !is_same;
  return aspects;
}

Result<bool> Comparer::xattrs_differ(const Pair& pair) {
  TRY(const Xattrs before, read_plain_xattrs(pair.frame.original, pair.name));
  if (before.empty() && pair.marks.own.empty()) return false;
  TRY(const Xattrs after, read_own_xattrs(pair.upper(), pair.name, pair.marks));
  return before != after;
}

std::string Comparer::moved_on(const BaseDirectory& base, const std::string& path,
                               const Node& node) const {
  if (clock_was_set_back_) return std::string(kClock);
  return std::string(base.is_unchanged(path, node) ? std::string_view() : kMovedOn);
}

std::string Comparer::conflict_of(const Pair& pair) const {
  if (!pair.frame.base) return {};
  if (pair.original.exists()) return moved_on(base_of(pair.frame), pair.path, pair.original);
  if (!pair.marks.is_copied_up || base_of(pair.frame).has_same_names()) return {};
  return std::string(kGone);
}

void Comparer::note_same(const std::string& path, const BaseDirectory& base) {
  if (!base.is_same()) return;
  found_.same_directories.push_back(
      {.path = path, .names = base.has_same_names() ? Names::Same : Names::MayDiffer});
}

void Comparer::refuse(const std::string& path, std::string problem) {
  found_.changes.push_back(
      {.kind = ChangeKind::Refused, .path = path, .problem = std::move(problem)});
}

Result<std::size_t> read_block(BorrowedFd fd, char* out, std::size_t size, std::uint64_t at) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::pread(fd.get(), out + done, size - done, static_cast<off_t>(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_os(errno, "read");
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

}  // namespace

Result<bool> same_bytes(BorrowedFd a, BorrowedFd b, std::uint64_t size) {
  const std::size_t block = static_cast<std::size_t>(std::min<std::uint64_t>(size, kCompareBlock));
  const auto buffer = std::make_unique_for_overwrite<char[]>(block * 2);
  for (std::uint64_t at = 0; at < size;) {
    TRY(const std::size_t from_a, read_block(a, buffer.get(), block, at));
    TRY(const std::size_t from_b, read_block(b, buffer.get() + block, block, at));
    if (from_a != from_b) return false;
    if (std::memcmp(buffer.get(), buffer.get() + block, from_a) != 0) return false;
    if (from_a == 0) break;  // cut while it was read
    at += from_a;
  }
  return true;
}

Result<Comparison> compare(const Layer& layer, const Uppers& uppers, BorrowedFd original) {
  return Comparer(layer, uppers, original).run();
}

}  // namespace glovebox::workspace
