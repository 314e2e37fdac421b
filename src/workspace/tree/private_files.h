// Small files of our own in directories that no box can reach.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace glovebox::workspace {

enum class Durability : std::uint8_t {
  Lazy,    // whole or absent for every reader, but may be lost when the machine crashes
  Synced,  // on the disk when the call returns
};

// Puts `text` at `name`, replacing what was there, in one rename.
Result<void> write_record(BorrowedFd dir, const std::string& name, std::string_view text,
                          Durability durability);

// A directory that is ours alone: made with 0700 if it is not there, with its parents; refused when
// it belongs to another user or others may enter it.
Result<UniqueFd> open_private_directory(const std::string& path);

}  // namespace glovebox::workspace
