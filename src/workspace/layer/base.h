// What the original was when a session began, without reading it: how a commit knows that the
// original changed meanwhile.
//
// A list of all files at the start would be exact and costs a walk (some 50 ms for 50,000 files,
// where a whole box takes 2 ms). Instead one moment is recorded, the start, and the kernel's change
// time (ctime) of what a commit is about to touch is compared with it. The argument that no change
// of the original is overwritten unseen:
//
//  1. A ctime cannot be chosen; writing, truncating, chmod, link, unlink, rename and utimes all set
//     it to the present, or to the last tick of the coarse clock before it (1 to 10 ms). So a
//     change before the start has ctime <= start. A change after the start could be stamped with
//     the tick before it; but the box reads nothing until the coarse clock is past the start (the
//     launch waits, plan::Op::AwaitClock), so whatever is changed after the box's first look has
//     ctime > start, and what is changed in between is what the box begins with. The clock never
//     runs backwards unless it is set. Filesystems with coarse stamps cut them off; a stamp without
//     a fraction of a second therefore counts as two seconds later.
//  2. So a file with ctime < start has the content it had at the start, and it has not been renamed
//     since. It is at the same PATH as at the start if no directory above it was replaced.
//  3. A directory is *the same as at the start* if the directory above it is, and either its own
//     ctime or that of the one above is before the start: in the first case it was not moved,
//     in the second no name in the one above was changed. The root is the same by device and inode.
//     When both changed it cannot be told, and every existing file below counts as changed. (Inodes
//     in the record `known`, below, settle it.)
//  4. A name that is absent now and that the box made: nothing is overwritten. A directory of the
//     box that began as a copy (the overlay says so) was made from one that is gone: changed. A
//     file that began as a copy may also have been renamed by the box; it counts as changed unless
//     the directory's ctime shows that no name in it came or went.
//  5. If the clock was set back during the session, ctime proves nothing and everything counts as
//     changed. That is seen by comparing it with the clock that counts time since boot.
// Not seen: a host that deletes a file while the box deletes AND makes it anew; the box's file
// stays. A clock that is set back and forth again, or across a reboot. Filesystems whose server
// stamps with another clock, or that do not set ctime on rename, are not in the list of those known
// to do it; there a file also counts as changed when its directory's ctime is after the start.
//
// After a commit the layer records what it put where, so that the next commit of the same layer
// does not take its own work for that of another program.
#pragma once

#include "workspace/tree/tree_fs.h"

#include <string>
#include <unordered_map>

namespace glovebox::workspace {

// Entries of `known`; more are dropped, which only makes commits more careful.
inline constexpr std::size_t kMostKnown = 500'000;

enum class StampTrust : std::uint8_t {
  Inode,         // ext4, xfs, btrfs, tmpfs, f2fs: rename sets the ctime of what is renamed
  InodeAndName,  // any other: the directory's ctime must be old, too
};

struct StartStamp {
  std::int64_t start = 0;             // ns since 1970
  std::int64_t clock_minus_boot = 0;  // wall clock minus time since boot, in ns
  std::string boot_id{};

  friend bool operator==(const StartStamp&, const StartStamp&) = default;
};

Result<StartStamp> read_start_stamp();
// Whether the wall clock was set back between the two. Unknown across a reboot: then it was not.
bool was_set_back(const StartStamp& start, const StartStamp& end);

// In Known::changed of a directory: it is the same one, but names in it came or went.
inline constexpr std::int64_t kNamesMayDiffer = 0;

// What a commit left at a path, or what was recorded there.
struct Known {
  std::uint64_t inode = 0;
  std::int64_t changed = 0;

  friend bool operator==(const Known&, const Known&) = default;
};
using KnownNodes = std::unordered_map<std::string, Known>;

struct Base {
  StartStamp stamp{};
  std::uint64_t device = 0;  // of the original's root
  std::uint64_t inode = 0;
  StampTrust trust = StampTrust::InodeAndName;
  KnownNodes known{};

  friend bool operator==(const Base&, const Base&) = default;
};

// The base of a session that starts now.
Result<Base> make_base(BorrowedFd original);

enum class Same : std::uint8_t { Yes, Unknown };

// Decides by the rules above, for one directory of the original and what is in it.
class BaseDirectory {
 public:
  // The root. Code::Denied when it is not the directory that the session began with.
  static Result<BaseDirectory> root(const Base& base, const Node& node);

  // A directory in this one. `path` is its own.
  BaseDirectory child(const std::string& path, const Node& node) const;

  // Whether what is at this name now is what was there at the start.
  bool is_unchanged(const std::string& path, const Node& node) const;
  bool is_same() const { return same_ == Same::Yes; }
  // Whether the same names are in it as at the start.
  bool has_same_names() const { return is_same() && is_old_; }

 private:
  BaseDirectory(const Base& base, const std::string& path, const Node& node, Same same);
  bool is_old(const Node& node) const;

  const Base* base_;
  Node node_{};
  Same same_;
  bool is_old_;
};

}  // namespace glovebox::workspace
