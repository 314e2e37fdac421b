// Where the sessions of an MCP server may be written out: one directory, which the user has named.
//
// The name of a file comes from an agent, so it is a plain name and nothing else: it never leads
// out of the directory, follows no link and replaces no file. The agent gets the file's name and
// never its content: files are sealed with a key that only the user has, and no box sees the
// directory or the key.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "checkpoint/key.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::mcp {

inline constexpr std::size_t kMaxCheckpointName = 64;
// More are refused: an agent must not fill the disk by asking again and again.
inline constexpr std::size_t kMaxCheckpoints = 64;

struct CheckpointPlace {
  std::string directory;  // absolute, without links
  checkpoint::Key key;
};

// Refused unless the directory is there, the caller's own, and no other user may write to it: what
// is restored from it becomes part of a session.
Result<CheckpointPlace> open_checkpoint_place(const std::string& directory,
                                              const checkpoint::Key& key);

// Letters, digits, '-', '_' and '.', the first of them a letter or a digit.
Result<void> check_checkpoint_name(std::string_view name);

struct KeptCheckpoint {
  std::string name;
  std::uint64_t size = 0;
};
// By name.
Result<std::vector<KeptCheckpoint>> list_checkpoints(const CheckpointPlace& place);

// Copies `size` bytes of `from`, from its start. The file is there as a whole or not at all.
// Code::Denied when the name is taken.
Result<void> keep_checkpoint(const CheckpointPlace& place, const std::string& name, BorrowedFd from,
                             std::uint64_t size);
Result<UniqueFd> open_checkpoint(const CheckpointPlace& place, const std::string& name);

}  // namespace glovebox::mcp
