// What file jobs tell of files. Entries are records that follow one another in a job's output, or
// the detail of its answer. Like every byte from the box they are decoded strictly.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace glovebox::guest {

enum class EntryKind : std::uint8_t { File, Directory, Symlink, Other };
constexpr EntryKind last_of(EntryKind /*unused*/) { return EntryKind::Other; }

// Times are nanoseconds since 1970 as two's complement; a filesystem without birth times gives the
// time of the last status change for `created_ns`.
struct Entry {
  EntryKind kind = EntryKind::File;
  std::uint32_t mode = 0;  // permission bits
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t size = 0;
  std::uint64_t modified_ns = 0;
  std::uint64_t created_ns = 0;
  std::string owner;   // empty when the box knows no name for it
  std::string group;   //
  std::string path;    // as asked for, with what lies below appended
  std::string target;  // of a symlink
  bool operator==(const Entry&) const = default;
};

// The longest record of an Entry: two paths, two names, and the numbers.
inline constexpr std::size_t kMaxEntry = std::size_t{16} << 10;

// A record is a 32-bit length and the fields, so that records can follow one another in a job's
// output.
std::string encode_entry(const Entry& entry);

// Takes one record off the front; nothing when it is not all there yet.
Result<std::optional<Entry>> take_entry(std::string_view& bytes);

}  // namespace glovebox::guest
