// The parts of file jobs that are not quick, and what they share. Each returns what JobEnded
// counts.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "guest/files/passwd_names.h"
#include "guest/protocol/entry.h"
#include "guest/protocol/protocol.h"

#include <cstdint>
#include <string>
#include <string_view>

#include <sys/stat.h>
#include <sys/types.h>

namespace glovebox::guest {

// Where a job works.
struct JobPlace {
  BorrowedFd workspace;
  BorrowedFd data;
};

Result<std::uint64_t> read_content(const StartJob& job, const JobPlace& place);
Result<std::uint64_t> write_content(const StartJob& job, const JobPlace& place);
Result<std::uint64_t> replace_text(const StartJob& job, const JobPlace& place);
Result<std::string> hash_content(const StartJob& job, const JobPlace& place);
Result<std::uint64_t> list_tree(const StartJob& job, const JobPlace& place);
Result<std::uint64_t> search_tree(const StartJob& job, const JobPlace& place);
Result<std::uint64_t> remove_tree(const StartJob& job, const JobPlace& place);
Result<std::uint64_t> pack_tree(const StartJob& job, const JobPlace& place);
Result<std::uint64_t> unpack_tree(const StartJob& job, const JobPlace& place);

// What is known of `name` in `dir`, with `path` as what it is called. `flags` are fstatat's.
Result<Entry> entry_at(BorrowedFd dir, const std::string& name, std::string path, int flags,
                       NameBook& names);

// Makes the directories above the last component of `path`, as far as they are missing.
Result<void> make_parents(BorrowedFd dir, std::string_view path);

// A path's last component, and what is above it ("." when there is nothing).
std::string_view last_of_path(std::string_view path);
std::string parent_of_path(std::string_view path);

}  // namespace glovebox::guest
