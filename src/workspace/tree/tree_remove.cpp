#include "workspace/tree/printable.h"
#include "workspace/tree/tree_fs.h"

#include <cerrno>
#include <deque>
#include <functional>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

namespace glovebox::workspace {
namespace {

constexpr int kMostTries = 8;

// A directory that its owner cannot read or write is made so first: what is removed needs no mode.
Result<UniqueFd> open_for_removal(BorrowedFd parent, const std::string& name) {
  TRY(const Node node, look(parent, name));
  if ((node.mode & 0700U) != 0700U) TRY_VOID(change_mode(parent, name, 0700));
  return open_directory(parent, name);
}

struct CloseStream {
  void operator()(DIR* stream) const { (void)::closedir(stream); }
};

// One name after the other, however many there are: a box may have made more than fit into memory.
using Visit = std::function<Result<void>(BorrowedFd dir, const Entry& entry)>;
Result<void> each_entry(UniqueFd dir, const Visit& visit) {
  const std::unique_ptr<DIR, CloseStream> stream(::fdopendir(dir.get()));
  if (!stream) return fail_os(errno, "list a directory");
  const BorrowedFd fd(dir.release());  // the stream closes it
  while (const dirent* found = ::readdir(stream.get())) {
    const std::string name = found->d_name;
    if (name == "." || name == "..") continue;
    const auto type = found->d_type == DT_DIR ? NodeType::Directory : NodeType::Missing;
    TRY_VOID(visit(fd, {name, type}));
  }
  return {};
}

// Empties a directory. Subdirectories of subdirectories are moved up into it, so that the deepest
// tree is never more than one level deep when its turn comes.
class Remover {
 public:
  explicit Remover(BorrowedFd top) : top_(top) {}

  Result<void> run() {
    TRY(UniqueFd listed, open_directory(top_, "."));
    TRY_VOID(each_entry(std::move(listed), [this](BorrowedFd dir, const Entry& entry) {
      return take_out(dir, entry, Place::Top);
    }));
    while (!waiting_.empty()) {
      const std::string name = std::move(waiting_.front());
      waiting_.pop_front();
      TRY_VOID(remove_emptied(name));
    }
    return {};
  }

 private:
  enum class Place { Top, Below };

  // A listing may miss names while others are taken out: then there is something left, and it is
  // listed again.
  Result<void> remove_emptied(const std::string& name) {
    for (int tries = 0;; ++tries) {
      TRY_VOID(empty_out(name));
      if (::unlinkat(top_.get(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
      if (errno != ENOTEMPTY || tries == kMostTries) {
        return fail_os(errno, "remove {}", printable(name));
      }
    }
  }

  Result<void> empty_out(const std::string& name) {
    TRY(UniqueFd dir, open_for_removal(top_, name));
    return each_entry(std::move(dir), [this](BorrowedFd below, const Entry& entry) {
      return take_out(below, entry, Place::Below);
    });
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
  for (int tries = 0;; ++tries) {
    TRY_VOID(Remover(top).run());
    if (::unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR) == 0) return {};
    if (errno != ENOTEMPTY || tries == kMostTries) {
      return fail_os(errno, "remove {}", printable(name));
    }
  }
}

}  // namespace glovebox::workspace
