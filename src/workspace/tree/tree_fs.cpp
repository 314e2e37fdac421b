#include "workspace/tree/tree_fs.h"

#include "base/file.h"
#include "workspace/tree/printable.h"

#include <climits>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kListBuffer = std::size_t{32} << 10;  // on the stack
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr int kMostTries = 1000;

NodeType type_of(unsigned mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return NodeType::File;
    case S_IFDIR: return NodeType::Directory;
    case S_IFLNK: return NodeType::Symlink;
    case S_IFIFO: return NodeType::Fifo;
    case S_IFSOCK: return NodeType::Socket;
    case S_IFCHR: return NodeType::CharDevice;
    case S_IFBLK: return NodeType::BlockDevice;
    default: return NodeType::Missing;
  }
}

NodeType type_of_entry(unsigned char type) {
  switch (type) {
    case DT_REG: return NodeType::File;
    case DT_DIR: return NodeType::Directory;
    case DT_LNK: return NodeType::Symlink;
    case DT_FIFO: return NodeType::Fifo;
    case DT_SOCK: return NodeType::Socket;
    case DT_CHR: return NodeType::CharDevice;
    case DT_BLK: return NodeType::BlockDevice;
    default: return NodeType::Missing;
  }
}

Node to_node(const struct statx& facts) {
  return {.type = type_of(facts.stx_mode),
          .mode = facts.stx_mode & 07777U,
          .uid = facts.stx_uid,
          .gid = facts.stx_gid,
          .size = facts.stx_size,
          .device = makedev(facts.stx_dev_major, facts.stx_dev_minor),
          .inode = facts.stx_ino,
          .device_number = makedev(facts.stx_rdev_major, facts.stx_rdev_minor),
          .modified = facts.stx_mtime.tv_sec * kSecond + facts.stx_mtime.tv_nsec,
          .changed = facts.stx_ctime.tv_sec * kSecond + facts.stx_ctime.tv_nsec};
}

Result<UniqueFd> open_resolved(BorrowedFd root, const std::string& path, std::uint64_t flags) {
  struct open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  for (int tries = 0;; ++tries) {
    const long fd =
        ::syscall(SYS_openat2, root.get(), path.empty() ? "." : path.c_str(), &how, sizeof how);
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    // EAGAIN: a rename raced with the lookup, and the kernel could not prove it stayed beneath.
    const bool may_pass = (errno == EINTR || errno == EAGAIN) && tries < kMostTries;
    if (!may_pass) return fail_os(errno, "open {} in the workspace", printable(path));
  }
}

// O_NONBLOCK keeps an open of a FIFO from waiting for its other end. The type is checked on the
// descriptor, because the name may have changed since the last look.
Result<UniqueFd> open_checked(BorrowedFd dir, const std::string& path) {
  TRY(UniqueFd fd, open_resolved(dir, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW));
  TRY(const Node node, look(fd));
  if (!node.is(NodeType::File)) {
    return fail(Code::Denied, "{}: not a regular file but a {}", printable(path),
                to_text(node.type));
  }
  return fd;
}

struct RawEntry {
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short length;
  unsigned char type;
};
constexpr std::size_t kEntryNameAt = 19;  // linux_dirent64: the name follows the type at once

void append_entries(std::string_view block, std::vector<Entry>& out) {
  while (block.size() > kEntryNameAt) {
    RawEntry head{};
    std::memcpy(&head.length, block.data() + 16, sizeof head.length);
    head.type = static_cast<unsigned char>(block[18]);
    const std::string_view name = block.data() + kEntryNameAt;
    if (name != "." && name != "..") out.push_back({std::string(name), type_of_entry(head.type)});
    block.remove_prefix(head.length);
  }
}

}  // namespace

std::string_view to_text(NodeType type) {
  switch (type) {
    case NodeType::Missing: return "missing";
    case NodeType::File: return "file";
    case NodeType::Directory: return "directory";
    case NodeType::Symlink: return "symlink";
    case NodeType::Fifo: return "fifo";
    case NodeType::Socket: return "socket";
    case NodeType::CharDevice: return "character device";
    case NodeType::BlockDevice: return "block device";
  }
  return "unknown";
}

bool same_file(const Node& a, const Node& b) {
  return a.type == b.type && a.device == b.device && a.inode == b.inode;
}

bool same_content(const Node& a, const Node& b) {
  return same_file(a, b) && a.size == b.size && a.modified == b.modified && a.mode == b.mode;
}

Result<Node> look(BorrowedFd dir, const std::string& name) {
  struct statx facts{};
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_SYNC_AS_STAT;
  if (::statx(dir.get(), name.c_str(), kFlags, STATX_BASIC_STATS, &facts) == 0) {
    return to_node(facts);
  }
  if (errno == ENOENT || errno == ENOTDIR) return Node{};
  return fail_os(errno, "look at {}", printable(name));
}

Result<Node> look(BorrowedFd fd) {
  struct statx facts{};
  if (::statx(fd.get(), "", AT_EMPTY_PATH, STATX_BASIC_STATS, &facts) != 0) {
    return fail_os(errno, "look at an open file");
  }
  return to_node(facts);
}

std::pair<std::string, std::string> split_path(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {"", std::string(path)};
  return {std::string(path.substr(0, slash)), std::string(path.substr(slash + 1))};
}

std::string join_path(std::string_view dir, std::string_view name) {
  std::string path;
  path.reserve(dir.size() + 1 + name.size());
  path = dir;
  if (!dir.empty()) path += '/';
  return path += name;
}

bool tree_order(std::string_view a, std::string_view b) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (in_a == a.end() || in_b == b.end()) return in_a == a.end() && in_b != b.end();
  if (*in_a == '/' || *in_b == '/') return *in_a == '/';
  return static_cast<unsigned char>(*in_a) < static_cast<unsigned char>(*in_b);
}

bool is_below(std::string_view path, std::string_view dir) {
  if (dir.empty()) return !path.empty();
  return path.size() > dir.size() && path.starts_with(dir) && path[dir.size()] == '/';
}

Result<UniqueFd> open_directory_beneath(BorrowedFd root, const std::string& path) {
  return open_resolved(root, path, O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

Result<UniqueFd> open_directory(BorrowedFd dir, const std::string& name) {
  return open_resolved(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

Result<UniqueFd> open_regular(BorrowedFd dir, const std::string& name) {
  TRY(const Node node, look(dir, name));
  if (!node.exists()) return fail_os(ENOENT, "open {}", printable(name));
  if (!node.is(NodeType::File)) {
    return fail(Code::Denied, "{}: not a regular file but a {}", printable(name),
                to_text(node.type));
  }
  return open_checked(dir, name);
}

Result<UniqueFd> open_regular_beneath(BorrowedFd root, const std::string& path) {
  const auto [dir, name] = split_path(path);
  TRY(const UniqueFd parent, open_directory_beneath(root, dir));
  return open_regular(parent, name);
}

Result<UniqueFd> open_handle(BorrowedFd dir, const std::string& name) {
  return open_resolved(dir, name, O_PATH | O_NOFOLLOW);
}

std::string descriptor_path(BorrowedFd fd) { return fmt::format("/proc/self/fd/{}", fd.get()); }

Result<std::string> read_link(BorrowedFd dir, const std::string& name) {
  std::array<char, PATH_MAX> target;
  const ssize_t n = ::readlinkat(dir.get(), name.c_str(), target.data(), target.size());
  if (n < 0) return fail_os(errno, "read the link {}", printable(name));
  return std::string(target.data(), static_cast<std::size_t>(n));
}

Result<std::vector<Entry>> list_directory(BorrowedFd dir) {
  std::vector<Entry> entries;
  std::array<char, kListBuffer> buffer;
  for (;;) {
    const long n = ::syscall(SYS_getdents64, dir.get(), buffer.data(), buffer.size());
    if (n < 0) return fail_os(errno, "list a directory");
    if (n == 0) return entries;
    append_entries({buffer.data(), static_cast<std::size_t>(n)}, entries);
    if (entries.size() > kMostEntries) {
      return fail(Code::Exhausted, "a directory of more than {} entries", kMostEntries);
    }
  }
}

Result<void> move_new(BorrowedFd from_dir, const std::string& from, BorrowedFd to_dir,
                      const std::string& to) {
  if (::renameat2(from_dir.get(), from.c_str(), to_dir.get(), to.c_str(), RENAME_NOREPLACE) != 0) {
    return fail_os(errno, "move {} to {}", printable(from), printable(to));
  }
  return {};
}

Result<void> change_mode(BorrowedFd dir, const std::string& name, unsigned mode) {
  TRY(const UniqueFd handle, open_handle(dir, name));
  TRY(const Node node, look(handle));
  if (!node.is(NodeType::File) && !node.is(NodeType::Directory)) {
    return fail(Code::Denied, "{}: a {} has no mode to set", printable(name), to_text(node.type));
  }
  // The path names the descriptor's own inode, which was just seen to be no link.
  if (::chmod(descriptor_path(handle).c_str(), mode) != 0) {
    return fail_os(errno, "set the mode of {}", printable(name));
  }
  return {};
}

}  // namespace glovebox::workspace
