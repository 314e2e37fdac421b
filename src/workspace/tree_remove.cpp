#include "workspace/text.h"
#include "workspace/tree_fs.h"

#include <cerrno>
#include <deque>

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::workspace {
namespace {

// A directory that its owner cannot read or write is made so first: what is removed needs no mode.
Result<UniqueFd> open_for_removal(BorrowedFd parent, const std::string& name) {
  TRY(const Node node, look(parent, name));
  if ((node.mode & 0700U) != 0700U) TRY_VOID(change_mode(parent, name, 0700));
  return open_directory(parent, name);
}

// Empties a directory. Subdirectories of subdirectories are moved up into it, so that the deepest
// tree is never more than one level deep when its turn comes.
class Remover {
 public:
  explicit Remover(BorrowedFd top) : top_(top) {}

  Result<void> run() {
    TRY(const auto entries, list_directory(top_));
    for (const Entry& entry : entries) TRY_VOID(take_out(top_, entry, Place::Top));
    while (!waiting_.empty()) {
      const std::string name = std::move(waiting_.front());
      waiting_.pop_front();
      TRY_VOID(empty_out(name));
      if (::unlinkat(top_.get(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
        return fail_os(errno, "remove {}", printable(name));
      }
    }
    return {};
  }

 private:
  enum class Place { Top, Below };

  Result<void> empty_out(const std::string& name) {
    TRY(const UniqueFd dir, open_for_removal(top_, name));
    TRY(const auto entries, list_directory(dir));
    for (const Entry& entry : entries) TRY_VOID(take_out(dir, entry, Place::Below));
    return {};
  }

  Result<void> take_out(BorrowedFd dir, const Entry& entry, Place place) {
    if (entry.type != NodeType::Directory) {
      if (::unlinkat(dir.get(), entry.name.c_str(), 0) == 0 || errno == ENOENT) return {};
      if (errno != EISDIR) return fail_os(errno, "remove {}", printable(entry.name));
    }
    if (place == Place::Top) {
      waiting_.push_back(entry.name);
      return {};
    }
    return move_up(dir, entry.name);
  }

  Result<void> move_up(BorrowedFd dir, const std::string& name) {
    for (;;) {
      std::string up = fmt::format(".up-{}", ++moved_);
      auto moved = move_new(dir, name, top_, up);
      if (!moved && moved.error().os_errno == EEXIST) continue;
      if (!moved && moved.error().os_errno == EACCES) {
        // Moving a directory rewrites its "..", for which its own mode must allow writing.
        TRY_VOID(change_mode(dir, name, 0700));
        moved = move_new(dir, name, top_, up);
      }
      if (!moved) return moved;
      waiting_.push_back(std::move(up));
      return {};
    }
  }

  BorrowedFd top_;
  std::deque<std::string> waiting_;
  std::size_t moved_ = 0;
};

}  // namespace

Result<void> remove_tree(BorrowedFd parent, const std::string& name) {
  TRY(const Node node, look(parent, name));
  if (!node.exists()) return {};
  if (!node.is(NodeType::Directory)) {
    if (::unlinkat(parent.get(), name.c_str(), 0) == 0) return {};
    return fail_os(errno, "remove {}", printable(name));
  }
  TRY(const UniqueFd top, open_for_removal(parent, name));
  TRY_VOID(Remover(top).run());
  if (::unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR) == 0) return {};
  return fail_os(errno, "remove {}", printable(name));
}

}  // namespace glovebox::workspace
