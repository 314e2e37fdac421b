// Copies files and trees between places that are ours: staging areas and backups.
#pragma once

#include "workspace/tree/xattrs.h"

namespace glovebox::workspace {

// Copies `size` bytes: by sharing the blocks where the filesystem can, else data by data, leaving
// holes as holes. A sparse file of any size costs what it really holds.
Result<void> copy_content(BorrowedFd from, BorrowedFd to, std::uint64_t size);

// What a copy gets besides its content.
struct Attributes {
  unsigned mode = 0;
  uid_t uid = 0;  // given only when we are root: only root can give files away
  gid_t gid = 0;
  std::int64_t modified = 0;
  Xattrs xattrs{};
};

Result<void> make_file(BorrowedFd to_dir, const std::string& to, BorrowedFd content,
                       std::uint64_t size, const Attributes& attributes);
Result<void> make_link(BorrowedFd to_dir, const std::string& to, const std::string& target,
                       const Attributes& attributes);
Result<void> make_fifo(BorrowedFd to_dir, const std::string& to, const Attributes& attributes);
// The owner's own permissions are added, so that the directory can be filled and moved.
Result<void> make_directory(BorrowedFd to_dir, const std::string& to, const Attributes& attributes);

// Owner, mode, time, user.* attributes and the access list of what is there.
Result<Attributes> read_attributes(BorrowedFd dir, const std::string& name, const Node& node);

// One name with everything below it, attributes included. The source must not be a box's.
Result<void> copy_tree(BorrowedFd from_dir, const std::string& from, BorrowedFd to_dir,
                       const std::string& to);

inline constexpr const char* kAccessList = "system.posix_acl_access";

}  // namespace glovebox::workspace
