#include "workspace/layer/upper_stack.h"

#include <algorithm>
#include <map>

namespace glovebox::workspace {
namespace {

Within within_of(const Marks& marks) {
  return marks.has_xwhiteouts ? Within::XwhiteoutDirectory : Within::PlainDirectory;
}

bool is_joined(const Node& node, const Marks& marks) {
  return node.is(NodeType::Directory) && !marks.is_whiteout;
}

}  // namespace

Uppers::Uppers(std::vector<UniqueFd> trees) : owned_(std::move(trees)) {
  for (const UniqueFd& tree : owned_) trees_.emplace_back(tree);
}

Result<MergedDirectory> MergedDirectory::open_root(const Uppers& uppers, MarkPrefix prefix) {
  MergedDirectory root;
  root.prefix_ = prefix;
  for (std::size_t level = 0; level < uppers.size(); ++level) {
    Part part;
    part.level = level;
    TRY(part.dir, open_directory(uppers.at(level), "."));
    TRY(const Node node, look(part.dir));
    TRY(const Marks marks, read_marks(part.dir, ".", node, prefix, part.within));
    if (!marks.forged.empty() || marks.is_opaque) {
      return fail(Code::Denied, "the root of the layer has a forged mark: {}", marks.forged);
    }
    part.within = within_of(marks);
    root.parts_.push_back(std::move(part));
  }
  return root;
}

Result<std::vector<MergedEntry>> MergedDirectory::list() const {
  std::vector<MergedEntry> all;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    TRY(std::vector<Entry> entries, list_directory(parts_[i].dir));
    all.reserve(all.size() + entries.size());
    for (Entry& entry : entries) all.push_back({std::move(entry.name), entry.type, i});
  }
  std::sort(all.begin(), all.end(), [](const MergedEntry& a, const MergedEntry& b) {
    return std::tie(a.name, a.part) < std::tie(b.name, b.part);
  });
  if (parts_.size() == 1) return all;
  const auto rest = std::ranges::unique(all, {}, &MergedEntry::name);
  all.erase(rest.begin(), rest.end());
  return all;
}

// What the trees below have at the name, as far as what is above them shows it.
Result<std::vector<MergedDirectory::Beneath>> MergedDirectory::look_beneath(
    const MergedEntry& entry) const {
  std::vector<Beneath> found;
  for (std::size_t i = entry.part + 1; i < parts_.size(); ++i) {
    Beneath one{.part = i, .node = {}, .marks = {}};
    TRY(one.node, look(parts_[i].dir, entry.name));
    if (!one.node.exists()) continue;
    TRY(one.marks, read_marks(parts_[i].dir, entry.name, one.node, prefix_, parts_[i].within));
    if (!one.marks.forged.empty()) {
      return fail(Code::Denied, "forged overlay mark: {}", one.marks.forged);
    }
    const bool is_last = !is_joined(one.node, one.marks) || one.marks.is_opaque;
    found.push_back(std::move(one));
    if (is_last) break;
  }
  return found;
}

Result<void> MergedDirectory::complete(const MergedEntry& entry, const Node& node,
                                       Marks& marks) const {
  if (entry.part + 1 == parts_.size() || marks.is_whiteout) return {};
  const bool is_directory = is_joined(node, marks);
  if (!is_directory && !marks.is_copied_up) return {};
  if (marks.is_opaque) return {};
  TRY(const std::vector<Beneath> beneath, look_beneath(entry));
  for (const Beneath& one : beneath) {
    const bool is_same_kind = is_directory == is_joined(one.node, one.marks);
    if (one.marks.is_whiteout || !is_same_kind) {
      // Something else was there in between, so the original has no part in it.
      marks.is_opaque = marks.is_opaque || is_directory;
      marks.is_copied_up = false;
      break;
    }
    marks.is_copied_up = one.marks.is_copied_up;
    if (one.marks.is_opaque) marks.is_opaque = true;
  }
  return {};
}

Result<MergedDirectory> MergedDirectory::descend(const MergedEntry& entry,
                                                 const Marks& marks) const {
  MergedDirectory below;
  below.prefix_ = prefix_;
  const auto add = [&](std::size_t index, const Marks& own) -> Result<void> {
    Part part;
    TRY(part.dir, open_directory(parts_[index].dir, entry.name));
    part.within = within_of(own);
    part.level = parts_[index].level;
    below.parts_.push_back(std::move(part));
    return {};
  };
  TRY_VOID(add(entry.part, marks));
  if (entry.part + 1 == parts_.size()) return below;
  // `marks` may say opaque for the whole stack; whether the topmost is so by itself is asked again.
  TRY(const Node node, look(parts_[entry.part].dir, entry.name));
  TRY(const Marks own,
      read_marks(parts_[entry.part].dir, entry.name, node, prefix_, parts_[entry.part].within));
  if (own.is_opaque) return below;
  TRY(const std::vector<Beneath> beneath, look_beneath(entry));
  for (const Beneath& one : beneath) {
    if (!is_joined(one.node, one.marks)) break;
    TRY_VOID(add(one.part, one.marks));
  }
  return below;
}

}  // namespace glovebox::workspace
