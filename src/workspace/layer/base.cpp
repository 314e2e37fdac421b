#include "workspace/layer/base.h"

#include "base/file.h"

#include <array>
#include <cerrno>
#include <ctime>
#include <limits>

#include <linux/magic.h>
#include <sys/vfs.h>

namespace glovebox::workspace {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
// Stamps may be cut to a microsecond, and to two seconds where there is no fraction at all.
constexpr std::int64_t kFineCut = 1'000;
constexpr std::int64_t kCoarseCut = 2 * kSecond;
// Two reads of two clocks are not one moment, and the wall clock is steered by up to 0.05 %.
constexpr std::int64_t kClockNoise = kSecond / 10;
constexpr std::int64_t kSteering = 1000;
constexpr std::int64_t kNarrow = 20'000;

constexpr unsigned kXfsMagic = 0x58465342;

std::int64_t read_clock(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

// The difference of two clocks at one moment: the one is read between two reads of the other, and
// again when the process was stopped in between.
std::int64_t read_clock_minus_boot() {
  constexpr int kTries = 20;
  std::int64_t best = 0;
  std::int64_t narrowest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kTries && narrowest > kNarrow; ++i) {
    const std::int64_t before = read_clock(CLOCK_BOOTTIME);
    const std::int64_t wall = read_clock(CLOCK_REALTIME);
    const std::int64_t width = read_clock(CLOCK_BOOTTIME) - before;
    if (width >= narrowest) continue;
    narrowest = width;
    best = wall - before - width / 2;
  }
  return best;
}

StampTrust trust_of(BorrowedFd fd) {
  struct statfs facts{};
  if (::fstatfs(fd.get(), &facts) != 0) return StampTrust::InodeAndName;
  switch (static_cast<unsigned>(facts.f_type)) {
    case EXT4_SUPER_MAGIC:
    case kXfsMagic:
    case BTRFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case F2FS_SUPER_MAGIC: return StampTrust::Inode;
    default: return StampTrust::InodeAndName;
  }
}

}  // namespace

Result<StartStamp> read_start_stamp() {
  StartStamp stamp;
  stamp.start = read_clock(CLOCK_REALTIME);
  stamp.clock_minus_boot = read_clock_minus_boot();
  TRY(stamp.boot_id, read_file("/proc/sys/kernel/random/boot_id"));
  while (stamp.boot_id.ends_with('\n')) stamp.boot_id.pop_back();
  return stamp;
}

bool was_set_back(const StartStamp& start, const StartStamp& end) {
  if (start.boot_id != end.boot_id) return false;
  if (end.start < start.start) return true;
  const std::int64_t allowed = kClockNoise + (end.start - start.start) / kSteering;
  return end.clock_minus_boot < start.clock_minus_boot - allowed;
}

Result<Base> make_base(BorrowedFd original) {
  TRY(const Node root, look(original));
  if (!root.is(NodeType::Directory)) return fail(Code::Invalid, "a workspace is a directory");
  Base base;
  TRY(base.stamp, read_start_stamp());
  base.device = root.device;
  base.inode = root.inode;
  base.trust = trust_of(original);
  return base;
}

BaseDirectory::BaseDirectory(const Base& base, const std::string& path, const Node& node, Same same)
    : base_(&base), node_(node), same_(same), is_old_(is_old(node)) {
  const auto known = base.known.find(path);
  if (known == base.known.end()) return;
  is_old_ = known->second == Known{.inode = node.inode, .changed = node.changed};
}

Result<BaseDirectory> BaseDirectory::root(const Base& base, const Node& node) {
  if (node.device != base.device || node.inode != base.inode) {
    return fail(Code::Denied,
                "the workspace is not the directory that the session began with: it was replaced");
  }
  return BaseDirectory(base, "", node, Same::Yes);
}

bool BaseDirectory::is_old(const Node& node) const {
  const std::int64_t cut = node.changed % kSecond == 0 ? kCoarseCut : kFineCut;
  return node.changed + cut < base_->stamp.start;
}

BaseDirectory BaseDirectory::child(const std::string& path, const Node& node) const {
  const auto known = base_->known.find(path);
  const bool is_known = known != base_->known.end() && known->second.inode == node.inode;
  const bool was_not_moved = base_->trust == StampTrust::Inode && is_old(node);
  const bool is_same = same_ == Same::Yes && (is_known || is_old_ || was_not_moved);
  return {*base_, path, node, is_same ? Same::Yes : Same::Unknown};
}

bool BaseDirectory::is_unchanged(const std::string& path, const Node& node) const {
  if (same_ != Same::Yes) return false;
  const auto known = base_->known.find(path);
  if (known != base_->known.end()) {
    return known->second == Known{.inode = node.inode, .changed = node.changed};
  }
  return is_old(node) && (base_->trust == StampTrust::Inode || is_old_);
}

}  // namespace glovebox::workspace
