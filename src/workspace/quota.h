// How a limit on what a session may write is kept, decided from facts. Pure.
//
// A limit counts only if the write that exceeds it fails. Counting afterwards does not do, so a
// limit that no backing on this host can enforce is refused.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace glovebox::workspace {

struct QuotaFacts {
  bool is_root = false;
  bool has_loop_devices = false;            // /dev/loop-control can be used
  bool has_mkfs_ext4 = false;               // an image can be formatted
  std::uint64_t memory_available = 0;       // bytes; what a tmpfs would take
  std::uint64_t layer_filesystem_free = 0;  // bytes free where layers are
  bool has_overlay_on_tmpfs = false;        // tmpfs takes user.* attributes: Linux 6.6
};

struct QuotaAsked {
  std::uint64_t bytes = 0;   // 0: no limit
  std::uint64_t inodes = 0;  // 0: no limit
};

enum class Backing : std::uint8_t {
  Directory,  // no limit: the upper is a directory of the layer
  Tmpfs,      // size= and nr_inodes=; in memory, gone with its last mount
  LoopImage,  // a sparse ext4 image, loop-mounted; root only
};

std::string_view to_text(Backing backing);

struct QuotaChoice {
  Backing backing = Backing::Directory;
  std::string mount_options{};     // Tmpfs: "size=...,nr_inodes=...,mode=0700"
  std::uint64_t image_bytes = 0;   // LoopImage
  std::uint64_t image_inodes = 0;  // LoopImage
  std::string why{};

  friend bool operator==(const QuotaChoice&, const QuotaChoice&) = default;
};

// A tmpfs upper may take at most this share of the memory that is available.
inline constexpr std::uint64_t kTmpfsShare = 4;

// Code::Unsupported, saying what is missing, when the limit cannot be enforced here.
Result<QuotaChoice> choose_quota(const QuotaFacts& facts, const QuotaAsked& asked);

}  // namespace glovebox::workspace
