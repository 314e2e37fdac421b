#include "workspace/tree/tree_copy.h"

#include "base/file.h"
#include "workspace/tree/overlay_marks.h"
#include "workspace/tree/printable.h"

#include <algorithm>
#include <cerrno>
#include <memory>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::workspace {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::size_t kBlock = std::size_t{256} << 10;

Result<void> copy_by_hand(BorrowedFd from, BorrowedFd to, off_t at, off_t end) {
  const auto size = static_cast<std::size_t>(std::min<off_t>(end - at, kBlock));
  const auto buffer = std::make_unique_for_overwrite<char[]>(size);
  while (at < end) {
    const auto want = static_cast<std::size_t>(std::min<off_t>(end - at, static_cast<off_t>(size)));
    const ssize_t n = ::pread(from.get(), buffer.get(), want, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_os(errno, "read");
    if (n == 0) return fail(Code::Denied, "the file became shorter while it was copied");
    if (::lseek(to.get(), at, SEEK_SET) < 0) return fail_os(errno, "seek");
    TRY_VOID(write_all(to, {buffer.get(), static_cast<std::size_t>(n)}));
    at += n;
  }
  return {};
}

Result<void> copy_range(BorrowedFd from, BorrowedFd to, off_t at, off_t end) {
  constexpr off_t kWorthACall = 64 << 10;  // below, two plain calls are faster
  while (end - at >= kWorthACall) {
    off_t read_at = at;
    off_t write_at = at;
    const ssize_t n = ::copy_file_range(from.get(), &read_at, to.get(), &write_at,
                                        static_cast<std::size_t>(end - at), 0);
    if (n <= 0) break;  // not between these filesystems: by hand, which also tells why
    at += n;
  }
  return at < end ? copy_by_hand(from, to, at, end) : Result<void>();
}

timespec to_timespec(std::int64_t time) {
  std::int64_t seconds = time / kSecond;
  if (time % kSecond < 0) --seconds;
  return {.tv_sec = seconds, .tv_nsec = time - seconds * kSecond};
}

Result<void> set_time(BorrowedFd dir, const std::string& name, std::int64_t modified) {
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, to_timespec(modified)};
  if (::utimensat(dir.get(), name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
    return fail_os(errno, "set the time of {}", printable(name));
  }
  return {};
}

// Only root can give files away. Everybody else keeps the group where they may, and no more.
Result<void> set_owner(BorrowedFd dir, const std::string& name, const Attributes& attributes) {
  if (::geteuid() == 0) {
    if (::fchownat(dir.get(), name.c_str(), attributes.uid, attributes.gid, AT_SYMLINK_NOFOLLOW) !=
        0) {
      return fail_os(errno, "set the owner of {}", printable(name));
    }
    return {};
  }
  if (attributes.gid != ::getegid()) {
    // A group that the caller is not in cannot be kept: the file then has the caller's own.
    (void)!::fchownat(dir.get(), name.c_str(), static_cast<uid_t>(-1), attributes.gid,
                      AT_SYMLINK_NOFOLLOW);
  }
  return {};
}

Result<void> copy_children(BorrowedFd from, BorrowedFd to, std::size_t depth);

Result<void> copy_one(BorrowedFd from_dir, const std::string& from, BorrowedFd to_dir,
                      const std::string& to, std::size_t depth) {
  if (depth > kDeepestTree) {
    return fail(Code::Exhausted, "more than {} directories deep", kDeepestTree);
  }
  TRY(const Node node, look(from_dir, from));
  TRY(Attributes attributes, read_attributes(from_dir, from, node));
  switch (node.type) {
    case NodeType::File: {
      TRY(const UniqueFd content, open_regular(from_dir, from));
      return make_file(to_dir, to, content, node.size, attributes);
    }
    case NodeType::Symlink: {
      TRY(const std::string target, read_link(from_dir, from));
      return make_link(to_dir, to, target, attributes);
    }
    case NodeType::Fifo: return make_fifo(to_dir, to, attributes);
    case NodeType::Directory: {
      TRY_VOID(make_directory(to_dir, to, attributes));
      TRY(const UniqueFd below, open_directory(from_dir, from));
      TRY(const UniqueFd copy, open_directory(to_dir, to));
      TRY_VOID(copy_children(below, copy, depth + 1));
      TRY_VOID(change_mode(to_dir, to, attributes.mode));
      return set_time(to_dir, to, attributes.modified);
    }
    default:
      return fail(Code::Denied, "{}: a {} is not copied", printable(from), to_text(node.type));
  }
}

Result<void> copy_children(BorrowedFd from, BorrowedFd to, std::size_t depth) {
  TRY(const auto entries, list_directory(from));
  for (const Entry& entry : entries) {
    TRY_VOID(copy_one(from, entry.name, to, entry.name, depth));
  }
  return {};
}

}  // namespace

Result<void> copy_content(BorrowedFd from, BorrowedFd to, std::uint64_t size) {
  if (size == 0) return {};
  constexpr std::uint64_t kWorthSharing = 64 << 10;
  if (size >= kWorthSharing && ::ioctl(to.get(), FICLONE, from.get()) == 0) return {};
  const auto end = static_cast<off_t>(size);
  for (off_t at = 0; at < end;) {
    const off_t data = ::lseek(from.get(), at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // only a hole is left
    if (data < 0) return fail_os(errno, "look for data");
    off_t hole = ::lseek(from.get(), data, SEEK_HOLE);
    if (hole < 0) return fail_os(errno, "look for a hole");
    hole = std::min(hole, end);
    if (data < hole) TRY_VOID(copy_range(from, to, data, hole));
    at = std::max(hole, data + 1);
  }
  if (::ftruncate(to.get(), end) != 0) return fail_os(errno, "set the size");
  return {};
}

Result<void> make_file(BorrowedFd to_dir, const std::string& to, BorrowedFd content,
                       std::uint64_t size, const Attributes& attributes) {
  TRY(const UniqueFd fd, open_file_at(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  TRY_VOID(copy_content(content, fd, size));
  TRY_VOID(set_owner(to_dir, to, attributes));
  for (const auto& [name, value] : attributes.xattrs) TRY_VOID(set_xattr(fd, name, value));
  // After the owner, because chown(2) clears set-id bits.
  if (::fchmod(fd.get(), attributes.mode) != 0) return fail_os(errno, "set the mode");
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                             to_timespec(attributes.modified)};
  if (::futimens(fd.get(), times) != 0) return fail_os(errno, "set the time");
  return {};
}

Result<void> make_link(BorrowedFd to_dir, const std::string& to, const std::string& target,
                       const Attributes& attributes) {
  if (::symlinkat(target.c_str(), to_dir.get(), to.c_str()) != 0) {
    return fail_os(errno, "make the link {}", printable(to));
  }
  TRY_VOID(set_owner(to_dir, to, attributes));
  return set_time(to_dir, to, attributes.modified);
}

Result<void> make_fifo(BorrowedFd to_dir, const std::string& to, const Attributes& attributes) {
  if (::mkfifoat(to_dir.get(), to.c_str(), attributes.mode & 0777U) != 0) {
    return fail_os(errno, "make the fifo {}", printable(to));
  }
  return set_owner(to_dir, to, attributes);
}

Result<void> make_directory(BorrowedFd to_dir, const std::string& to,
                            const Attributes& attributes) {
  if (::mkdirat(to_dir.get(), to.c_str(), 0700) != 0) {
    return fail_os(errno, "make the directory {}", printable(to));
  }
  TRY_VOID(set_owner(to_dir, to, attributes));
  TRY(const UniqueFd fd, open_directory(to_dir, to));
  for (const auto& [name, value] : attributes.xattrs) TRY_VOID(set_xattr(fd, name, value));
  if (::fchmod(fd.get(), attributes.mode | 0700U) != 0) return fail_os(errno, "set the mode");
  return {};
}

Result<Attributes> read_attributes(BorrowedFd dir, const std::string& name, const Node& node) {
  Attributes attributes{
      .mode = node.mode, .uid = node.uid, .gid = node.gid, .modified = node.modified, .xattrs = {}};
  if (!node.is(NodeType::File) && !node.is(NodeType::Directory)) return attributes;
  TRY(attributes.xattrs, read_plain_xattrs(dir, name));
  TRY(auto list, find_xattr(dir, name, kAccessList));
  if (list) attributes.xattrs.emplace(kAccessList, *std::move(list));
  return attributes;
}

Result<void> copy_tree(BorrowedFd from_dir, const std::string& from, BorrowedFd to_dir,
                       const std::string& to) {
  return copy_one(from_dir, from, to_dir, to, 0);
}

}  // namespace glovebox::workspace
