// What a checkpoint holds, in the order in which it stands there.
//
//   'S' snapshot      a text, the session as a value
//   'B' bases         a text, what the originals of its layers were
//   'L' layer         a text that says of what, then its entries:
//     'E' entry       one name, a directory before what is in it
//     'D' data        bytes of the file before it, and where they belong; holes are left out
//   'Z' end           nothing follows
//
// Numbers are little-endian. Every length has a bound, and a record that does not fit the order is
// refused: the writer of the file had the key, but that is no reason to trust it with memory or
// paths.
#pragma once

#include "base/result.h"
#include "checkpoint/sealed_stream.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace glovebox::checkpoint {

inline constexpr std::size_t kMaxTextRecord = std::size_t{64} << 20;
inline constexpr std::size_t kMaxData = std::size_t{1} << 20;
inline constexpr std::size_t kMaxEntryXattrs = 256;
inline constexpr std::size_t kMaxXattrBytes = 64 << 10;

enum class RecordKind : char {
  Snapshot = 'S',
  Bases = 'B',
  Layer = 'L',
  Entry = 'E',
  Data = 'D',
  End = 'Z'
};

enum class EntryType : std::uint8_t { File, Directory, Symlink, Fifo, Whiteout };

// One name of a layer as overlayfs has it in an upper directory.
struct EntryRecord {
  EntryType type = EntryType::File;
  bool is_opaque = false;     // a directory that hides the original's
  bool is_copied_up = false;  // began as a copy of the original's
  std::uint16_t mode = 0;
  std::int64_t modified = 0;  // ns since 1970
  std::uint64_t size = 0;     // of a file
  std::string path{};         // relative to the workspace
  std::string target{};       // of a link
  std::map<std::string, std::string> xattrs{};
  friend bool operator==(const EntryRecord&, const EntryRecord&) = default;
};

class RecordWriter {
 public:
  explicit RecordWriter(SealedWriter& out) : out_(out) {}
  Result<void> text(RecordKind kind, std::string_view text);
  Result<void> entry(const EntryRecord& entry);
  Result<void> data(std::uint64_t offset, std::string_view bytes);
  Result<void> end();

 private:
  SealedWriter& out_;
};

class RecordReader {
 public:
  explicit RecordReader(SealedReader& in) : in_(in) {}
  // The kind of the next record; its body is read by the function of that name.
  Result<RecordKind> next();
  Result<std::string> text();
  // Checks everything that can be checked without a disk: the path leads nowhere but down.
  Result<EntryRecord> entry();
  struct Data {
    std::uint64_t offset = 0;
    std::string_view bytes;  // until the next call
  };
  Result<Data> data();

 private:
  Result<std::uint64_t> number(std::size_t bytes);
  Result<std::string> bytes(std::size_t most);

  SealedReader& in_;
  std::string buffer_;
};

}  // namespace glovebox::checkpoint
