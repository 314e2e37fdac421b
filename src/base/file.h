// Small files, read and written whole: /proc, cgroupfs, reports.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace glovebox {

// Opens with O_CLOEXEC added. `flags` are open(2)'s.
Result<UniqueFd> open_file(const std::string& path, int flags, unsigned mode = 0);
Result<UniqueFd> open_file_at(BorrowedFd dir, const std::string& path, int flags,
                              unsigned mode = 0);

// Reads until the end or `limit` bytes; more than `limit` is Code::Exhausted, never a cut text.
Result<std::string> read_file(const std::string& path, std::size_t limit = 1 << 20);
Result<std::string> read_file_at(BorrowedFd dir, const std::string& path,
                                 std::size_t limit = 1 << 20);
Result<std::string> read_fd(BorrowedFd fd, std::size_t limit);

// Where an open file is now, as the kernel tells it; one that was removed has " (deleted)" behind
// its name. A path longer than PATH_MAX is an error, never a cut one.
Result<std::string> path_of(BorrowedFd fd);

// Writes all of `text` to an existing file in one open/write/close. Kernel control files take their
// value in a single write, so a short write is an error.
Result<void> write_control(const std::string& path, std::string_view text);
Result<void> write_control_at(BorrowedFd dir, const std::string& path, std::string_view text);

// Writes all of `text`, however many writes that takes.
Result<void> write_all(BorrowedFd fd, std::string_view text);

}  // namespace glovebox
