// The single steps, forwards and backwards. Each first finds out what was done already: by what is
// in `new` and `old`, and by the inode that was staged.
#include "workspace/commit/transaction.h"
#include "workspace/tree/printable.h"

#include <cerrno>

#include <fcntl.h>
#include <stdio.h>

namespace glovebox::workspace {
namespace {

auto interfered(const std::string& path) {
  return fail(Code::Denied, "{}: changed by somebody else during the commit", printable(path));
}

// Exchanges two names in one act. False where the filesystem cannot.
Result<bool> exchange(BorrowedFd a_dir, const std::string& a, BorrowedFd b_dir,
                      const std::string& b) {
  if (::renameat2(a_dir.get(), a.c_str(), b_dir.get(), b.c_str(), RENAME_EXCHANGE) == 0)
    return true;
  if (errno == EINVAL) return false;
  return fail_os(errno, "exchange {}", printable(b));
}

// Moving a directory to another parent needs write permission on the directory itself.
Result<void> move_away(BorrowedFd dir, const std::string& name, const Node& node, BorrowedFd to_dir,
                       const std::string& to) {
  auto moved = move_new(dir, name, to_dir, to);
  if (moved || moved.error().os_errno != EACCES || !node.is(NodeType::Directory)) return moved;
  TRY_VOID(change_mode(dir, name, node.mode | 0700U));
  return move_new(dir, name, to_dir, to);
}

Result<void> apply_attributes(BorrowedFd parent, const std::string& name, unsigned mode,
                              const Xattrs& unwanted, const Xattrs& wanted) {
  TRY(const UniqueFd handle, open_handle(parent, name));
  for (const auto& [attribute, value] : unwanted) {
    if (!wanted.contains(attribute)) TRY_VOID(remove_xattr(handle, attribute));
  }
  for (const auto& [attribute, value] : wanted) TRY_VOID(set_xattr(handle, attribute, value));
  return change_mode(parent, name, mode);
}

}  // namespace

Result<UniqueFd> Transaction::open_parent(const std::string& path) {
  return open_directory_beneath(BorrowedFd(original_), split_path(path).first);
}

Result<void> Transaction::do_step(std::size_t index) {
  const Step& step = steps_[index];
  const std::string name = split_path(step.path).second;
  TRY(const UniqueFd parent, open_parent(step.path));
  switch (step.kind) {
    case StepKind::Add: return do_add(index, parent, name);
    case StepKind::Replace: return do_replace(index, parent, name);
    case StepKind::Remove: return do_remove(index, parent, name);
    case StepKind::SetAttributes: {
      TRY(const Node now, look(parent, name));
      const bool is_staged_here = step.before.inode == 0;  // a directory of an earlier step
      const bool has_known_mode = now.mode == step.before.mode || now.mode == step.mode_after;
      if (!is_staged_here && !(same_file(now, step.before) && has_known_mode)) {
        return interfered(step.path);
      }
      return apply_attributes(parent, name, step.mode_after, step.xattrs_before, step.xattrs_after);
    }
  }
  return fail(Code::Invalid, "an unknown step");
}

Result<void> Transaction::do_add(std::size_t index, BorrowedFd parent, const std::string& name) {
  TRY(const Node staged, look(new_, staged_name(index)));
  if (!staged.exists()) return {};
  auto moved = move_new(new_, staged_name(index), parent, name);
  if (!moved && moved.error().os_errno == EEXIST) return interfered(steps_[index].path);
  return moved;
}

Result<void> Transaction::do_replace(std::size_t index, BorrowedFd parent,
                                     const std::string& name) {
  const Step& step = steps_[index];
  const std::string number = staged_name(index);
  TRY(const Node old, look(old_, number));
  TRY(const Node staged, look(new_, number));
  if (old.exists()) return staged.exists() ? move_new(new_, number, parent, name) : Result<void>();
  if (staged.inode == step.staged_inode) {
    TRY(const Node now, look(parent, name));
    if (!same_content(now, step.before) || now.changed != step.before.changed) {
      return interfered(step.path);
    }
    TRY(const bool is_exchanged, exchange(new_, number, parent, name));
    if (!is_exchanged) {
      TRY_VOID(move_new(parent, name, old_, number));
      return move_new(new_, number, parent, name);
    }
    TRY(const Node displaced, look(new_, number));
    if (!same_content(displaced, step.before)) {
      TRY_VOID(exchange(new_, number, parent, name).map([](bool) {}));
      return interfered(step.path);
    }
    at("exchanged");
  }
  return move_new(new_, number, old_, number);
}

Result<void> Transaction::do_remove(std::size_t index, BorrowedFd parent, const std::string& name) {
  const Step& step = steps_[index];
  const std::string number = staged_name(index);
  TRY(const Node old, look(old_, number));
  if (!old.exists()) {
    TRY(const Node now, look(parent, name));
    // A directory that is emptied by other steps gets new times; its inode stays.
    const bool is_expected = step.before.is(NodeType::Directory) ? same_file(now, step.before)
                                                                 : same_content(now, step.before);
    if (!is_expected) return interfered(step.path);
    TRY_VOID(move_away(parent, name, now, old_, number));
    TRY(const Node displaced, look(old_, number));
    if (!same_file(displaced, step.before)) {
      TRY_VOID(move_new(old_, number, parent, name));
      return interfered(step.path);
    }
  }
  if (!step.before.is(NodeType::Directory) || step.scope == Scope::Tree) return {};
  TRY(const UniqueFd dir, open_directory(old_, number));
  TRY(const auto entries, list_directory(dir));
  return entries.empty() ? Result<void>() : interfered(step.path);
}

// Whether a step left any trace. One that did not needs no directory to be taken back in, and that
// directory may be one that was never made.
Result<bool> Transaction::was_begun(std::size_t index) {
  const Step& step = steps_[index];
  TRY(const Node staged, look(new_, staged_name(index)));
  TRY(const Node old, look(old_, staged_name(index)));
  switch (step.kind) {
    case StepKind::Add: return !staged.exists();
    case StepKind::Replace: return old.exists() || staged.inode != step.staged_inode;
    case StepKind::Remove: return old.exists();
    case StepKind::SetAttributes: return step.before.inode != 0;
  }
  return true;
}

Result<void> Transaction::undo_step(std::size_t index) {
  const Step& step = steps_[index];
  const std::string name = split_path(step.path).second;
  TRY(const bool is_begun, was_begun(index));
  if (!is_begun) return {};
  TRY(const UniqueFd parent, open_parent(step.path));
  switch (step.kind) {
    case StepKind::Add: return undo_add(index, parent, name);
    case StepKind::Replace: return undo_replace(index, parent, name);
    case StepKind::Remove: return undo_remove(index, parent, name);
    case StepKind::SetAttributes: {
      TRY(const Node now, look(parent, name));
      if (!same_file(now, step.before)) return {};
      return apply_attributes(parent, name, step.before.mode, step.xattrs_after,
                              step.xattrs_before);
    }
  }
  return fail(Code::Invalid, "an unknown step");
}

Result<void> Transaction::undo_add(std::size_t index, BorrowedFd parent, const std::string& name) {
  TRY(const Node staged, look(new_, staged_name(index)));
  if (staged.exists()) return {};
  TRY(const Node now, look(parent, name));
  if (now.inode != steps_[index].staged_inode) return interfered(steps_[index].path);
  return move_away(parent, name, now, new_, staged_name(index));
}

Result<void> Transaction::undo_replace(std::size_t index, BorrowedFd parent,
                                       const std::string& name) {
  const Step& step = steps_[index];
  const std::string number = staged_name(index);
  TRY(const Node old, look(old_, number));
  TRY(const Node staged, look(new_, number));
  if (staged.exists() && staged.inode == step.staged_inode) {
    // Not done, or only its first half where names cannot be exchanged.
    return old.exists() ? move_new(old_, number, parent, name) : Result<void>();
  }
  if (staged.exists()) return exchange(new_, number, parent, name).map([](bool) {});
  if (!old.exists()) return fail(Code::Os, "{}: its backup is gone", printable(step.path));
  if (old.inode != step.staged_inode) {
    TRY(const Node now, look(parent, name));
    if (now.inode != step.staged_inode) return interfered(step.path);
    TRY(const bool is_exchanged, exchange(old_, number, parent, name));
    if (!is_exchanged) {
      TRY_VOID(move_new(parent, name, new_, number));
      return move_new(old_, number, parent, name);
    }
  }
  return move_new(old_, number, new_, number);
}

Result<void> Transaction::undo_remove(std::size_t index, BorrowedFd parent,
                                      const std::string& name) {
  const Step& step = steps_[index];
  TRY(const Node old, look(old_, staged_name(index)));
  if (!old.exists()) return {};
  TRY_VOID(move_new(old_, staged_name(index), parent, name));
  if (old.is(NodeType::Directory) && old.mode != step.before.mode) {
    return change_mode(parent, name, step.before.mode);
  }
  return {};
}

}  // namespace glovebox::workspace
