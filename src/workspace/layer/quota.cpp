#include "workspace/layer/quota.h"

#include "base/quantity.h"

#include <algorithm>

namespace glovebox::workspace {
namespace {

bool can_make_image(const QuotaFacts& facts, const QuotaAsked& asked) {
  return facts.is_root && facts.has_loop_devices && facts.has_mkfs_ext4 && asked.layers == 1;
}

std::string missing_for_image(const QuotaFacts& facts, const QuotaAsked& asked) {
  if (!facts.is_root) return "only root can mount an image";
  if (!facts.has_loop_devices) return "this host has no loop devices";
  if (!facts.has_mkfs_ext4) return "mkfs.ext4 is not installed";
  if (asked.layers != 1) return "several layers cannot share an image";
  return fmt::format("{} are free on the disk", bytes_to_text(facts.layer_filesystem_free));
}

}  // namespace

std::string_view to_text(plan::LayerBacking backing) {
  switch (backing) {
    case plan::LayerBacking::Directory: return "directory";
    case plan::LayerBacking::Memory: return "tmpfs";
    case plan::LayerBacking::Image: return "loop-image";
  }
  return "unknown";
}

Result<QuotaChoice> choose_quota(const QuotaFacts& facts, const QuotaAsked& asked) {
  if (asked.bytes == 0 && asked.inodes == 0) {
    return QuotaChoice{.backing = plan::LayerBacking::Directory, .why = "no limit was asked for"};
  }
  const std::uint64_t wanted = asked.bytes != 0 ? asked.bytes : kUsualQuota;
  const std::uint64_t least = std::min(wanted, kLeastQuota);
  const std::uint64_t in_memory =
      facts.has_overlay_on_tmpfs ? std::min(wanted, facts.memory_available / kTmpfsShare) : 0;
  if (wanted <= kSmallQuota && in_memory == wanted) {
    return QuotaChoice{plan::LayerBacking::Memory, wanted, asked.inodes, "small enough for memory"};
  }
  const std::uint64_t free = facts.layer_filesystem_free;
  const std::uint64_t on_disk = std::min(wanted, free - free / kDiskReserveShare);
  if (can_make_image(facts, asked) && on_disk >= least) {
    return QuotaChoice{plan::LayerBacking::Image, on_disk, asked.inodes, "root can mount an image"};
  }
  if (in_memory >= least) {
    return QuotaChoice{plan::LayerBacking::Memory, in_memory, asked.inodes,
                       "no image can be mounted"};
  }
  return fail(Code::Unsupported,
              "a disk budget of {} cannot be kept for a layer here: {} of memory are available, of "
              "which a quarter may be used, and {} (give the budget up with --waive limit.disk)",
              bytes_to_text(wanted), bytes_to_text(facts.memory_available),
              missing_for_image(facts, asked));
}

}  // namespace glovebox::workspace
