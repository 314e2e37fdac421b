// Extended attributes of files that a box made.
//
// Only attributes named user.* are ever taken over. What decides about access or identity
// (security.*, system.*, trusted.*) is never copied from a box; a file capability is reported so
// that it can be held back by name.
#pragma once

#include "workspace/tree/tree_fs.h"

#include <map>

namespace glovebox::workspace {

// Bounds of Linux itself (xattr(7)); more is refused.
inline constexpr std::size_t kMostXattrBytes = 65536;

// Names and values, sorted by name.
using Xattrs = std::map<std::string, std::string>;

// The names on a file, without following a link. A filesystem that has none gives an empty list.
Result<std::vector<std::string>> list_xattrs(BorrowedFd dir, const std::string& name);
// The value, or nothing when there is none.
Result<std::optional<std::string>> find_xattr(BorrowedFd dir, const std::string& name,
                                              const std::string& attribute);

// Sets one attribute on an open file or directory.
Result<void> set_xattr(BorrowedFd fd, const std::string& attribute, const std::string& value);
Result<void> remove_xattr(BorrowedFd fd, const std::string& attribute);

}  // namespace glovebox::workspace
