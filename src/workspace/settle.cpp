#include "workspace/settle.h"

#include "base/file.h"
#include "workspace/text.h"
#include "workspace/tree_copy.h"

#include <cerrno>
#include <unordered_map>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::workspace {
namespace {

constexpr const char* kDraft = "settling";
constexpr std::string_view kUserPrefix = "user.";

class Settler {
 public:
  Settler(BorrowedFd to, const LayerFacts& facts) : to_(to), facts_(facts) {}

  Result<void> children(BorrowedFd from, BorrowedFd to, const std::string& path,
                        std::size_t depth) {
    if (depth > kDeepestTree) {
      return fail(Code::Exhausted, "more than {} directories deep", kDeepestTree);
    }
    TRY(const auto entries, list_directory(from));
    for (const Entry& entry : entries) {
      TRY_VOID(one(from, to, entry.name, join_path(path, entry.name), depth));
    }
    return {};
  }

  Result<Attributes> attributes(BorrowedFd dir, const std::string& name, const Node& node) const {
    Attributes found{.mode = node.mode,
                     .uid = facts_.upper_uid,
                     .gid = facts_.upper_gid,
                     .modified = node.modified,
                     .xattrs = {}};
    if (!node.is(NodeType::File) && !node.is(NodeType::Directory)) return found;
    TRY(const auto names, list_xattrs(dir, name));
    for (const std::string& attribute : names) {
      if (!attribute.starts_with(kUserPrefix)) continue;
      TRY(auto value, find_xattr(dir, name, attribute));
      if (value) found.xattrs.emplace(attribute, *std::move(value));
    }
    return found;
  }

 private:
  Result<void> one(BorrowedFd from, BorrowedFd to, const std::string& name, const std::string& path,
                   std::size_t depth) {
    TRY(const Node node, look(from, name));
    if (!node.is(NodeType::Directory) && has_links(from, name)) {
      const auto [first, is_first] = first_links_.emplace(node.inode, path);
      if (!is_first) return link(first->second, to, name);
    }
    switch (node.type) {
      case NodeType::File: return file(from, to, name, node);
      case NodeType::Directory: return directory(from, to, name, path, node, depth);
      case NodeType::Symlink: {
        TRY(const std::string target, read_link(from, name));
        TRY(const Attributes given, attributes(from, name, node));
        return make_link(to, name, target, given);
      }
      default: return special(to, name, node);
    }
  }

  static bool has_links(BorrowedFd dir, const std::string& name) {
    struct stat info{};
    return ::fstatat(dir.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && info.st_nlink > 1;
  }

  Result<void> link(const std::string& first, BorrowedFd to, const std::string& name) const {
    if (::linkat(to_.get(), first.c_str(), to.get(), name.c_str(), 0) != 0) {
      return fail_os(errno, "link {}", printable(name));
    }
    return {};
  }

  // The box may have shut out even its own user. Nobody but us is left who could mind.
  static Result<void> let_us_in(BorrowedFd dir, const std::string& name, const Node& node,
                                unsigned wanted) {
    if ((node.mode & wanted) == wanted) return {};
    return change_mode(dir, name, node.mode | wanted);
  }

  Result<void> file(BorrowedFd from, BorrowedFd to, const std::string& name, const Node& node) {
    TRY_VOID(let_us_in(from, name, node, 0400));
    TRY(const Attributes given, attributes(from, name, node));
    TRY(const UniqueFd content, open_regular(from, name));
    return make_file(to, name, content, node.size, given);
  }

  Result<void> directory(BorrowedFd from, BorrowedFd to, const std::string& name,
                         const std::string& path, const Node& node, std::size_t depth) {
    TRY_VOID(let_us_in(from, name, node, 0500));
    TRY(const Attributes given, attributes(from, name, node));
    TRY_VOID(make_directory(to, name, given));
    TRY(const UniqueFd below, open_directory(from, name));
    TRY(const UniqueFd copy, open_directory(to, name));
    TRY_VOID(children(below, copy, path, depth + 1));
    return change_mode(to, name, node.mode);
  }

  // A whiteout is a character device with number 0, which everybody may make; other devices no box
  // can have made.
  Result<void> special(BorrowedFd to, const std::string& name, const Node& node) const {
    if (node.is(NodeType::BlockDevice) ||
        (node.is(NodeType::CharDevice) && node.device_number != 0)) {
      return fail(Code::Denied, "{}: a device in a layer", printable(name));
    }
    const mode_t type = node.is(NodeType::CharDevice) ? S_IFCHR
                        : node.is(NodeType::Fifo)     ? S_IFIFO
                                                      : S_IFSOCK;
    if (::mknodat(to.get(), name.c_str(), type | (node.mode & 0777U), 0) != 0) {
      return fail_os(errno, "make {}", printable(name));
    }
    return {};
  }

  BorrowedFd to_;
  const LayerFacts& facts_;
  std::unordered_map<std::uint64_t, std::string> first_links_;  // by inode
};

Result<void> copy_upper(const Layer& layer, BorrowedFd memory, BorrowedFd box) {
  TRY(const Node node, look(memory));
  Settler probe(box, layer.facts());
  TRY(Attributes root, probe.attributes(memory, ".", node));
  TRY_VOID(make_directory(box, kDraft, root));
  TRY(const UniqueFd to, open_directory(box, kDraft));
  Settler settler(to, layer.facts());
  TRY_VOID(settler.children(memory, to, "", 1));
  return change_mode(box, kDraft, node.mode);
}

}  // namespace

Result<void> settle(Layer& layer, std::optional<BorrowedFd> memory) {
  if (layer.backing() != Backing::Tmpfs) return {};
  TRY(const UniqueFd box, open_file_at(layer.dir(), "box", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (memory) {
    TRY_VOID(remove_tree(box, kDraft));
    if (auto copied = copy_upper(layer, *memory, box); !copied) {
      (void)remove_tree(box, kDraft);  // the reason is told; what stays is removed with the layer
      return copied;
    }
    if (::unlinkat(box.get(), "upper", AT_REMOVEDIR) != 0 && errno != ENOENT) {
      return fail_os(errno, "make room for what was in memory");
    }
    TRY_VOID(move_new(box, kDraft, box, "upper"));
  }
  return layer.leave_memory();
}

}  // namespace glovebox::workspace
