// Looking at directory trees that another process may be changing.
//
// Every function takes a descriptor of a directory and ONE name in it, or a path that is resolved
// by openat2(2) with RESOLVE_BENEATH | NO_SYMLINKS | NO_MAGICLINKS | NO_XDEV. So no call here can
// be led out of the tree by a link, whichever process plants it and whenever: what a name means is
// decided by the kernel in the same call that uses it.
//
// An attacker would like us to open a FIFO and wait for ever, to open a device, to follow a link,
// or to run out of memory or descriptors on a huge or deep tree. Types are looked at before
// anything is opened, opening never blocks, and every amount has a bound.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace glovebox::workspace {

// Directories are followed this deep. Beyond it a tree is refused (or, when it is removed,
// flattened).
inline constexpr std::size_t kDeepestTree = 256;
// No host program can name a longer path, so none is taken over.
inline constexpr std::size_t kLongestPath = 4095;
// Entries of one directory that are read into memory.
inline constexpr std::size_t kMostEntries = 2'000'000;

enum class NodeType : std::uint8_t {
  Missing,
  File,
  Directory,
  Symlink,
  Fifo,
  Socket,
  CharDevice,
  BlockDevice,
};

std::string_view to_text(NodeType type);

// What statx(2) says about one name. Times are nanoseconds since 1970.
struct Node {
  NodeType type = NodeType::Missing;
  unsigned mode = 0;  // permission, set-id and sticky bits
  uid_t uid = 0;
  gid_t gid = 0;
  std::uint64_t size = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t device_number = 0;  // of a device node; 0 is the kernel's whiteout
  std::int64_t modified = 0;
  std::int64_t changed = 0;  // ctime: it cannot be chosen

  bool exists() const { return type != NodeType::Missing; }
  bool is(NodeType other) const { return type == other; }
  friend bool operator==(const Node&, const Node&) = default;
};

// The same file, by device and inode.
bool same_file(const Node& a, const Node& b);
// The same file with the same content, as far as the kernel's stamps tell. Renaming sets ctime, so
// it is not compared.
bool same_content(const Node& a, const Node& b);

// Never follows a link. A name that is not there is a Node of type Missing, not an error.
Result<Node> look(BorrowedFd dir, const std::string& name);
Result<Node> look(BorrowedFd fd);

// Splits "a/b/c" into "a/b" and "c".
std::pair<std::string, std::string> split_path(std::string_view path);
std::string join_path(std::string_view dir, std::string_view name);
// Orders paths so that a directory stands directly before everything below it.
bool tree_order(std::string_view a, std::string_view b);
bool is_below(std::string_view path, std::string_view dir);

// A directory below `root` by relative path ("" is the root itself), for use as a descriptor only.
Result<UniqueFd> open_directory_beneath(BorrowedFd root, const std::string& path);
// The same, readable, by one name.
Result<UniqueFd> open_directory(BorrowedFd dir, const std::string& name);
// A regular file for reading. Anything else at that name is Code::Denied; opening never waits.
Result<UniqueFd> open_regular(BorrowedFd dir, const std::string& name);
Result<UniqueFd> open_regular_beneath(BorrowedFd root, const std::string& path);
// A descriptor of whatever the name is, without opening it: for its mode and its xattrs.
Result<UniqueFd> open_handle(BorrowedFd dir, const std::string& name);
// "/proc/self/fd/7": names what a descriptor is open on, for calls that take only paths.
std::string descriptor_path(BorrowedFd fd);

Result<std::string> read_link(BorrowedFd dir, const std::string& name);

struct Entry {
  std::string name;
  NodeType type = NodeType::Missing;  // Missing where the filesystem does not say
};
// All entries but "." and "..", in the directory's own order.
Result<std::vector<Entry>> list_directory(BorrowedFd dir);

// Renames and never replaces: an existing target is EEXIST.
Result<void> move_new(BorrowedFd from_dir, const std::string& from, BorrowedFd to_dir,
                      const std::string& to);
Result<void> change_mode(BorrowedFd dir, const std::string& name, unsigned mode);

// Removes a name and everything below it, with a few descriptors whatever the depth: directories
// are moved up into the one that is removed, and emptied there. Nothing else is touched. A name
// that is not there is success.
Result<void> remove_tree(BorrowedFd parent, const std::string& name);

}  // namespace glovebox::workspace
