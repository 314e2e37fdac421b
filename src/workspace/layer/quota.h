// How a limit on what a session may write is kept, decided from facts. The decision is pure.
//
// A limit counts only if the write that exceeds it fails. Counting afterwards does not do, so a
// limit that no backing on this host can keep is refused. A limit is the most that may be written:
// where less can be kept than was asked for (memory, free disk), less is kept, and the plan's
// guarantees say how much.
#pragma once

#include "base/result.h"
#include "plan/spec.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace glovebox::workspace {

struct QuotaFacts {
  bool is_root = false;
  bool has_loop_devices = false;            // /dev/loop-control can be used
  bool has_mkfs_ext4 = false;               // an image can be formatted
  std::uint64_t memory_available = 0;       // bytes; what a tmpfs would take
  std::uint64_t layer_filesystem_free = 0;  // bytes free where layers are
  bool has_overlay_on_tmpfs = false;        // tmpfs takes user.* attributes: Linux 6.6
};

// Facts of this host, for layers in that directory.
Result<QuotaFacts> read_quota_facts(const std::string& layer_root);

struct QuotaAsked {
  std::uint64_t bytes = 0;   // 0: no limit
  std::uint64_t inodes = 0;  // 0: no limit
  std::size_t layers = 1;    // that share the limit
};

std::string_view to_text(plan::LayerBacking backing);

struct QuotaChoice {
  plan::LayerBacking backing = plan::LayerBacking::Directory;
  std::uint64_t bytes = 0;   // what is kept: as asked, or less
  std::uint64_t inodes = 0;  // 0: what is usual for so many bytes
  std::string why{};

  friend bool operator==(const QuotaChoice&, const QuotaChoice&) = default;
};

// Up to here memory is used where it can be: it needs no formatting.
inline constexpr std::uint64_t kSmallQuota = std::uint64_t{256} << 20;
// A tmpfs upper may take at most this share of the memory that is available.
inline constexpr std::uint64_t kTmpfsShare = 4;
// An image may promise all of what is free but this share.
inline constexpr std::uint64_t kDiskReserveShare = 8;
// Less than this in place of more is a refusal.
inline constexpr std::uint64_t kLeastQuota = std::uint64_t{64} << 20;
// Bytes that go with a limit on files alone.
inline constexpr std::uint64_t kUsualQuota = std::uint64_t{1} << 30;

// Code::Unsupported, saying what is missing, when the limit cannot be kept here.
Result<QuotaChoice> choose_quota(const QuotaFacts& facts, const QuotaAsked& asked);

}  // namespace glovebox::workspace
