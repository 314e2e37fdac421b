#include "workspace/commit/staging.h"

#include "workspace/tree/printable.h"

#include <fcntl.h>

namespace glovebox::workspace {
namespace {

auto unsteady(const std::string& path) {
  return fail(Code::Denied, "{}: changes while it is read; stop the box, or leave the path out",
              printable(path));
}

}  // namespace

Result<Xattrs> Stager::box_xattrs(BorrowedFd dir, const std::string& name, const Node& node) const {
  TRY(const Marks marks, read_marks(dir, name, node, prefix_, Within::PlainDirectory));
  if (!marks.forged.empty()) {
    return fail(Code::Denied, "{}: forged overlay mark: {}", printable(name), marks.forged);
  }
  return read_own_xattrs(dir, name, marks);
}

Result<Attributes> Stager::attributes_of(BorrowedFd dir, const std::string& name, const Node& node,
                                         const Change& change, SetId set_id) const {
  Attributes attributes;
  const bool keeps_id = set_id == SetId::Keep && node.is(NodeType::File);
  attributes.mode = node.mode & (keeps_id ? 07777U : 01777U);
  attributes.modified = node.modified;
  const Node& owner = change.before.exists() ? change.before : root_;
  attributes.uid = owner.uid;
  attributes.gid = owner.gid;
  if (!node.is(NodeType::File) && !node.is(NodeType::Directory)) return attributes;
  TRY(attributes.xattrs, box_xattrs(dir, name, node));
  if (change.before.is(NodeType::File)) {
    const auto [parent_path, base_name] = split_path(change.path);
    TRY(const UniqueFd parent, open_directory_beneath(original_, parent_path));
    TRY(auto list, find_xattr(parent, base_name, kAccessList));
    if (list) attributes.xattrs.emplace(kAccessList, *std::move(list));
  }
  return attributes;
}

Result<void> Stager::make(BorrowedFd dir, const std::string& from, BorrowedFd staged,
                          const std::string& name, Change& change,
                          const Attributes& attributes) const {
  switch (change.after.type) {
    case NodeType::File: {
      TRY(const UniqueFd content, open_regular(dir, from));
      TRY(const Node opened, look(content));
      if (!same_file(opened, change.after)) return unsteady(change.path);
      TRY_VOID(make_file(staged, name, content, opened.size, attributes));
      TRY(const Node read, look(content));
      return read == opened ? Result<void>() : unsteady(change.path);
    }
    case NodeType::Symlink: {
      TRY(change.target_after, read_link(dir, from));
      return make_link(staged, name, change.target_after, attributes);
    }
    case NodeType::Directory: return make_directory(staged, name, attributes);
    case NodeType::Fifo: return make_fifo(staged, name, attributes);
    default:
      return fail(Code::Denied, "{}: a {} is never committed; leave it out with a reject pattern",
                  printable(change.path), to_text(change.after.type));
  }
}

Result<void> Stager::stage(BorrowedFd staged, const std::string& name, Change& change, SetId set_id,
                           Step& step) const {
  if (step.kind == StepKind::Remove) return {};
  const auto [parent_path, base_name] = split_path(change.path);
  TRY(const UniqueFd dir, open_directory_beneath(uppers_.at(change.level), parent_path));
  TRY(const Node node, look(dir, base_name));
  if (!same_file(node, change.after)) return unsteady(change.path);
  change.after = node;
  TRY(const Attributes attributes, attributes_of(dir, base_name, node, change, set_id));
  if (step.kind == StepKind::SetAttributes) {
    step.mode_after = attributes.mode;
    if (node.is(NodeType::Directory)) step.mode_after |= step.before.mode & 06000U;
    if (change.kind != ChangeKind::Modified) return {};
    step.xattrs_after = attributes.xattrs;
    step.xattrs_after.erase(kAccessList);
    TRY(const UniqueFd parent, open_directory_beneath(original_, parent_path));
    TRY(step.xattrs_before, read_plain_xattrs(parent, base_name));
    return {};
  }
  TRY_VOID(make(dir, base_name, staged, name, change, attributes));
  TRY(const Node made, look(staged, name));
  step.staged_inode = made.inode;
  return {};
}

}  // namespace glovebox::workspace
