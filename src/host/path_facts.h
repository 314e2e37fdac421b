// A path that a caller names, looked up once, outside, before anything runs.
//
// The box sees the resolved path. The launcher opens it again without following links and compares
// device and inode, so a path that was swapped in between is refused, not followed.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace glovebox::host {

enum class PathKind : std::uint8_t { Directory, File, Socket, Other };

struct PathFacts {
  std::string path;  // absolute, no links, no "." or ".."
  PathKind kind = PathKind::Other;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  uid_t owner = 0;
  gid_t group = 0;

  friend bool operator==(const PathFacts&, const PathFacts&) = default;
};

// Resolves a path that must be absolute and exist.
Result<PathFacts> look_up(const std::string& path);

// As look_up, but a relative path is taken below the current directory: for words a person typed.
Result<PathFacts> look_up_from_here(const std::string& path);

// The real place of something that need not be there yet: links resolved as far as it exists. What
// is missing may hold no "..", and a link that leads nowhere is refused: it is not known what
// making it would make.
Result<std::string> resolve_new_path(const std::string& path);

// Splits an absolute path into its components; "" and "/" have none.
std::vector<std::string> components(std::string_view path);

// Whether `path` is `tree` or below it, by component: /a/b is below /a, /ab is not.
bool is_within(std::string_view path, std::string_view tree);

}  // namespace glovebox::host
