// By which other names the gate has to judge what is in a workspace.
//
// A workspace may itself be what a host's program obeys, or lie in it (mirror.git, .husky,
// .git/modules/lib), and a repository may be kept in a directory of any name (.bare, with a .git
// that is a file). Only the original is asked: a box cannot take a name away by what it makes.
#pragma once

#include "workspace/commit/gate.h"

namespace glovebox::workspace {

// The names of the workspace and of the directories above it that some rule knows. Those above do
// not count where the workspace is a checkout of its own: it has a `.git`.
std::vector<Alias> names_above(const GateRules& rules, std::string_view origin,
                               BorrowedFd original);

// The directories of the original on the way to some change that git would take for a repository,
// though their names do not end in ".git".
std::vector<Alias> find_repositories(BorrowedFd original, const std::vector<Change>& changes);

}  // namespace glovebox::workspace
