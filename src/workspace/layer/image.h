// A layer's own filesystem in a file: how a limit is kept on a disk. As root.
//
// The image is sparse: it takes what was written into it. In it are `upper` and `work` of the
// overlay, and a filler that takes what the filesystem has room for beyond the limit, so that the
// limit holds to the block. The number of files is rounded up to what ext4 can have.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <cstdint>
#include <string>

#include <sys/types.h>

namespace glovebox::workspace {

// The path of mkfs.ext4, or nullptr.
const char* find_mkfs();

struct ImageRequest {
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;  // 0: one for every 16 KiB
  uid_t uid = 0;             // owner of `upper` and `work`
  gid_t gid = 0;
  unsigned upper_mode = 0755;
};

// Makes and formats the image at `path`, which must not exist.
Result<void> make_image(const std::string& path, const ImageRequest& request);

// What was written into a layer's filesystem, and what there is room for.
struct Room {
  std::uint64_t used_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t free_inodes = 0;

  bool is_full() const;
  friend bool operator==(const Room&, const Room&) = default;
};
// Of the filesystem that a directory lies in: costs one call, however much is in there.
Result<Room> read_room(BorrowedFd dir);

}  // namespace glovebox::workspace
