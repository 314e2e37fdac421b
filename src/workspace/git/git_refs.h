// The refs of a repository on disk: loose files, packed-refs, HEAD. Read as hostile data.
#pragma once

#include "workspace/git/git_object.h"
#include "workspace/tree/tree_fs.h"

#include <map>

namespace glovebox::workspace {

inline constexpr std::size_t kMostRefs = 200'000;
inline constexpr std::size_t kLargestRefFile = std::size_t{32} << 20;

// By full name ("refs/heads/main", "HEAD"); those of other worktrees as "worktrees/w/HEAD".
using GitRefs = std::map<std::string, ObjectId>;

// The lines of packed-refs; what stands behind '^' is what an annotated tag peels to.
Result<GitRefs> parse_packed_refs(std::string_view text);

// What a file of a ref says: ids, one a line (HEAD, MERGE_HEAD, FETCH_HEAD), or another ref.
struct RefFile {
  std::vector<ObjectId> ids{};
  std::string target{};  // of "ref: refs/heads/main"

  friend bool operator==(const RefFile&, const RefFile&) = default;
};
Result<RefFile> parse_ref_file(std::string_view text);

// Whether git may take a file with this at its beginning for one of a ref.
bool begins_as_ref(std::string_view text);

// The commits that the lines of a reflog lead from and to, each once and in order; also those that
// "git checkout -" goes back to.
Result<std::vector<ObjectId>> parse_reflog(std::string_view text);

// All refs of the repository at `dir` below `root` that can be read. What cannot is left out.
GitRefs read_refs(BorrowedFd root, const std::string& dir);

}  // namespace glovebox::workspace
