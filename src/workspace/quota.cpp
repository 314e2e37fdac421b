#include "workspace/quota.h"

#include "base/quantity.h"

#include <algorithm>

namespace glovebox::workspace {
namespace {

// ext4's own tables and journal come on top of what the limit allows.
constexpr std::uint64_t kImageOverhead = std::uint64_t{16} << 20;
constexpr std::uint64_t kBytesPerInode = 16 << 10;
constexpr std::uint64_t kPage = 4096;

bool fits_in_memory(const QuotaFacts& facts, const QuotaAsked& asked) {
  return asked.bytes > 0 && asked.bytes <= facts.memory_available / kTmpfsShare;
}

bool can_make_image(const QuotaFacts& facts) {
  return facts.is_root && facts.has_loop_devices && facts.has_mkfs_ext4;
}

QuotaChoice choose_tmpfs(const QuotaAsked& asked) {
  const std::uint64_t inodes =
      asked.inodes > 0 ? asked.inodes : std::max<std::uint64_t>(asked.bytes / kPage, 1024);
  return {.backing = Backing::Tmpfs,
          .mount_options = fmt::format("size={},nr_inodes={},mode=0700", asked.bytes, inodes),
          .why = "the limit is small enough for memory, and a tmpfs needs no privilege"};
}

QuotaChoice choose_image(const QuotaAsked& asked) {
  const std::uint64_t inodes =
      asked.inodes > 0 ? asked.inodes : std::max<std::uint64_t>(asked.bytes / kBytesPerInode, 1024);
  return {.backing = Backing::LoopImage,
          .mount_options = "",
          .image_bytes = asked.bytes + kImageOverhead,
          .image_inodes = inodes,
          .why = "the limit is too large for memory, and root can mount an image"};
}

std::string missing_for_image(const QuotaFacts& facts) {
  if (!facts.is_root) return "only root can mount an image";
  if (!facts.has_loop_devices) return "this host has no loop devices";
  return "mkfs.ext4 is not installed";
}

}  // namespace

std::string_view to_text(Backing backing) {
  switch (backing) {
    case Backing::Directory: return "directory";
    case Backing::Tmpfs: return "tmpfs";
    case Backing::LoopImage: return "loop-image";
  }
  return "unknown";
}

Result<QuotaChoice> choose_quota(const QuotaFacts& facts, const QuotaAsked& asked) {
  if (asked.bytes == 0 && asked.inodes == 0) {
    return QuotaChoice{.mount_options = "", .why = "no limit was asked for"};
  }
  if (asked.bytes == 0) {
    return fail(Code::Invalid, "a limit on files needs a limit on bytes as well");
  }
  if (facts.has_overlay_on_tmpfs && fits_in_memory(facts, asked)) return choose_tmpfs(asked);
  if (!can_make_image(facts)) {
    return fail(Code::Unsupported,
                "a workspace limit of {} cannot be enforced here: {} of memory are available, of "
                "which a quarter may be used, and {}",
                bytes_to_text(asked.bytes), bytes_to_text(facts.memory_available),
                missing_for_image(facts));
  }
  if (asked.bytes > facts.layer_filesystem_free) {
    return fail(Code::Unsupported, "a workspace limit of {} is more than the {} that are free",
                bytes_to_text(asked.bytes), bytes_to_text(facts.layer_filesystem_free));
  }
  return choose_image(asked);
}

}  // namespace glovebox::workspace
