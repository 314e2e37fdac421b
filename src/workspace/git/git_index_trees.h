// The trees that an index remembers (its extension TREE): one for each directory whose entries did
// not change since. git puts them into the next commit without a look at the entries, so a forged
// one is a commit of files that no one added.
#pragma once

#include "workspace/git/git_index.h"

namespace glovebox::workspace {

// An error unless each tree is that of the entries, which must be in git's order.
Result<void> check_remembered_trees(std::string_view body, const std::vector<IndexEntry>& entries,
                                    std::size_t id_digits);

}  // namespace glovebox::workspace
