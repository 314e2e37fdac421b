// Git's index (.git/index), versions 2 to 4, read as hostile data: which names the next commit of
// the repository takes, and of which git does not look at the files.
#pragma once

#include "workspace/git/git_object.h"

namespace glovebox::workspace {

inline constexpr std::size_t kLargestGitIndex = std::size_t{256} << 20;

struct IndexEntry {
  std::string path{};
  unsigned mode = 0;  // as in a tree; a directory of a sparse index is 040000
  ObjectId id{};
  bool is_assumed_unchanged = false;
  bool is_skipped = false;  // skip-worktree

  bool hides_its_file() const { return is_assumed_unchanged || is_skipped; }
  friend bool operator==(const IndexEntry&, const IndexEntry&) = default;
};

struct GitIndex {
  std::vector<IndexEntry> entries{};
  // The extension by which git trusts a file system monitor to say what changed.
  std::string fsmonitor{};

  friend bool operator==(const GitIndex&, const GitIndex&) = default;
};

// A split index, whose names are in another file, is Code::Unsupported.
Result<GitIndex> parse_git_index(std::string_view bytes, std::size_t id_digits);

}  // namespace glovebox::workspace
