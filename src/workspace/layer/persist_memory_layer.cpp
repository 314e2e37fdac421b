#include "workspace/layer/persist_memory_layer.h"

#include "base/file.h"
#include "workspace/tree/printable.h"
#include "workspace/tree/tree_copy.h"

#include <cerrno>
#include <unordered_map>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::workspace {
namespace {

constexpr const char* kDraft = "settling";
constexpr std::string_view kUserPrefix = "user.";

enum class OnMisfit : std::uint8_t { Fail, LeaveOut };

// Whether it is what the box made that cannot be on this disk, and never will.
bool is_misfit(const Error& error) {
  switch (error.os_errno) {
    case 0:  // our own bounds
    case EFBIG:
    case EINVAL:
    case ENAMETOOLONG:
    case EMLINK:
    case EOPNOTSUPP:
    case EPERM:
    case ENOENT:  // the first name of a link was left out
      return true;
    default: return false;
  }
}

class Settler {
 public:
  Settler(BorrowedFd to, const LayerFacts& facts, OnMisfit on_misfit)
      : to_(to), facts_(facts), on_misfit_(on_misfit) {}

  const Unsettled& left_out() const { return left_out_; }

  Result<void> children(BorrowedFd from, BorrowedFd to, const std::string& path,
                        std::size_t depth) {
    if (depth > kDeepestTree) {
      return fail(Code::Exhausted, "more than {} directories deep", kDeepestTree);
    }
    TRY(const auto entries, list_directory(from));
    for (const Entry& entry : entries) {
      const std::string below = join_path(path, entry.name);
      auto copied = one(from, to, entry.name, below, depth);
      if (copied) continue;
      if (on_misfit_ == OnMisfit::Fail || !is_misfit(copied.error())) return copied;
      TRY_VOID(leave_out(to, entry.name, below, copied.error()));
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
  Result<void> leave_out(BorrowedFd to, const std::string& name, const std::string& path,
                         const Error& why) {
    if (left_out_.names++ == 0) {
      left_out_.first = fmt::format("{}: {}", printable(path), why.message);
    }
    return remove_tree(to, name);
  }

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

  // The box may have shut out even its own user. The box is gone, so changing the mode harms no
  // process.
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
  OnMisfit on_misfit_;
  Unsettled left_out_;
  std::unordered_map<std::uint64_t, std::string> first_links_;  // by inode
};

Result<Unsettled> copy_upper(const Layer& layer, BorrowedFd memory, BorrowedFd box,
                             OnMisfit on_misfit) {
  TRY(const Node node, look(memory));
  const Settler probe(box, layer.facts(), on_misfit);
  TRY(Attributes root, probe.attributes(memory, ".", node));
  TRY_VOID(make_directory(box, kDraft, root));
  TRY(const UniqueFd to, open_directory(box, kDraft));
  Settler settler(to, layer.facts(), on_misfit);
  TRY_VOID(settler.children(memory, to, "", 1));
  TRY_VOID(change_mode(box, kDraft, node.mode));
  return settler.left_out();
}

Result<Unsettled> settle_as(Layer& layer, std::optional<BorrowedFd> memory, OnMisfit on_misfit) {
  Unsettled left_out;
  if (layer.backing() != plan::LayerBacking::Memory) return left_out;
  TRY(const UniqueFd box, open_file_at(layer.dir(), "box", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (memory) {
    TRY_VOID(remove_tree(box, kDraft));
    auto copied = copy_upper(layer, *memory, box, on_misfit);
    if (!copied) {
      (void)remove_tree(box, kDraft);  // the reason is told; what stays is removed with the layer
      return copied;
    }
    left_out = *std::move(copied);
    if (::unlinkat(box.get(), "upper", AT_REMOVEDIR) != 0 && errno != ENOENT) {
      return fail_os(errno, "make room for what was in memory");
    }
    TRY_VOID(move_new(box, kDraft, box, "upper"));
  }
  TRY_VOID(layer.leave_memory());
  return left_out;
}

}  // namespace

Result<void> settle(Layer& layer, std::optional<BorrowedFd> memory) {
  TRY_VOID(settle_as(layer, memory, OnMisfit::Fail));
  return {};
}

Result<Unsettled> settle_what_fits(Layer& layer, BorrowedFd memory) {
  return settle_as(layer, memory, OnMisfit::LeaveOut);
}

}  // namespace glovebox::workspace
