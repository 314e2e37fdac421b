// The part of the gate that looks into git repositories.
//
// A name that the gate would hold as a file can also travel in a commit that a box made, in the
// index, or under the name of another object; the host's next push, checkout or commit then brings
// it out. So for changed refs, reflogs and indexes the names that are new in their trees are judged
// like files, and every object that is brought must be what its name says. Nothing is read unless
// something in a repository changed. What cannot be read, or is too large to be, is held.
//
// Names count as new when they differ from all parents of the commit that has them, and from what
// the original's own branches have at that path. Of a branch of a remote, all refs count.
#pragma once

#include "workspace/commit/gate.h"
#include "workspace/git/git_store.h"

namespace glovebox::workspace {

// Bytes of objects that one commit may bring. Beyond, they are not checked, and held.
inline constexpr std::uint64_t kMostCheckedBytes = std::uint64_t{512} << 20;

struct GitGate {
  const GateRules& rules;
  const GateContext& context;
  BorrowedFd original;
};

using OpenBrought = std::function<Result<UniqueFd>(const std::string& path)>;

// `changes` are those that the commit takes; `open` gives what it will put at such a path. A held
// path is that of the ref, index or object that brings the name.
std::vector<Held> judge_repositories(const GitGate& gate, const std::vector<const Change*>& changes,
                                     const OpenBrought& open);

}  // namespace glovebox::workspace
