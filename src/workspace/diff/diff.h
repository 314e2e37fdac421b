// What a box changed, for people and programs.
#pragma once

#include "workspace/diff/compare.h"

#include <functional>
#include <string>
#include <string_view>

namespace glovebox::workspace {

// Deleted and added files of the same content become one Renamed change. Looking for them reads
// both sides, so it is bounded: more candidates or larger files stay deleted and added.
inline constexpr std::size_t kMostRenameCandidates = 2'000;
inline constexpr std::uint64_t kMostRenameBytes = std::uint64_t{64} << 20;

Result<std::vector<Change>> diff(const Layer& layer, const Uppers& uppers, BorrowedFd original);

std::vector<Change> pair_renames(std::vector<Change> changes, const Uppers& uppers,
                                 BorrowedFd original);

// Takes output piece by piece. An error ends the writing.
using Sink = std::function<Result<void>(std::string_view)>;

// {"version":1,"changes":[{"path":...,"kind":...}, ...]}. A path that is no UTF-8 or holds control
// characters is escaped as by printable(), and then "path_hex" has its exact bytes.
std::string diff_to_json(const std::vector<Change>& changes);

enum class Reader : std::uint8_t {
  Terminal,  // everything that could drive a terminal is escaped
  Program,   // exact bytes, as patch(1) and git-apply(1) take them
};

// Files larger than this, or with a zero byte in the beginning, are not shown line by line: a
// program gets them as git's binary patches (git_binary.h), a terminal is told that they differ.
inline constexpr std::uint64_t kLargestTextFile = std::uint64_t{4} << 20;
// Files larger than this are only said to differ, which git-apply refuses to take.
inline constexpr std::uint64_t kLargestPatchedFile = std::uint64_t{64} << 20;

// A unified diff with git's headers, first what was deleted. For a program it is a patch: in a copy
// of the original, git-apply(1) makes of it every file and link that the box has; patch(1) does
// where no file is binary and no name changed from a directory to something else or back. `before`
// is the original, or between two branches everything that the first of them is made of.
Result<void> write_unified(const std::vector<Change>& changes, const Uppers& uppers,
                           const Uppers& before, Reader reader, const Sink& sink);

// One line for each change with the number of lines that came and went, and a sum.
Result<void> write_stat(const std::vector<Change>& changes, const Uppers& uppers,
                        const Uppers& before, const Sink& sink);

// A gzipped tar (pax) stream: first .glovebox/changes.json, then every file, link and directory
// that was added or changed, as it is in the box, owned by 0:0. Special files and files larger
// than `largest_file` are in the list alone.
struct TarBounds {
  std::uint64_t largest_file = std::uint64_t{8} << 30;
};
Result<void> write_tar_gz(const std::vector<Change>& changes, const Uppers& uppers,
                          TarBounds bounds, const Sink& sink);

}  // namespace glovebox::workspace
