// The workspace as an overlay: the original below, a layer of the session's on top, and between
// them the frozen layers that the session was forked from.
//
// All of them lie in the box's private tmpfs, under the place that /tmp covers: the overlay takes
// private copies of them when it is made, and no path of the box leads there. The directories have
// names of ours, so nothing in the mount's options comes from a caller.

#include "launch/child/context.h"
#include "launch/child/read_back.h"
#include "launch/child/sys.h"
#include "launch/child/text.h"
#include "plan/spec.h"

#include <linux/mount.h>
#include <time.h>

namespace glovebox::launch {
namespace {

constexpr std::uint64_t kAttributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

// "0:1:2:below": the frozen layers by their numbers, and the original. fsconfig(2) takes texts of
// up to 255 bytes.
class Lowers {
 public:
  explicit Lowers(std::uint64_t frozen) noexcept {
    for (std::uint64_t i = 0; i < frozen; ++i) {
      if (i >= 10) put(static_cast<char>('0' + i / 10));
      put(static_cast<char>('0' + i % 10));
      put(':');
    }
    for (const char* c = "below"; *c != '\0'; ++c) put(*c);
  }
  const char* text() const noexcept { return data_; }

 private:
  void put(char c) noexcept {
    if (size_ + 1 < sizeof(data_)) data_[size_++] = c;
  }
  char data_[256] = {};
  std::size_t size_ = 0;
};
static_assert(plan::kMaxFrozen < 100 && plan::kMaxFrozen * 3 + sizeof("below") <= 256);

// Marks of a layer that was mounted before: written by the kernel so that no later mount trusts a
// layer that a crash of the machine may have cut short. The box sees none of it.
bool forget_volatile() noexcept {
  constexpr const char* kDirty = "layer/work/work/incompat/volatile/dirty";
  constexpr const char* kMark = "layer/work/work/incompat/volatile";
  if (::syscall(SYS_unlinkat, AT_FDCWD, kDirty, 0) != 0 && errno != ENOENT) return false;
  if (::syscall(SYS_unlinkat, AT_FDCWD, kMark, AT_REMOVEDIR) == 0) return true;
  return errno == ENOENT;
}

bool set_options(int fs, std::uint64_t frozen) noexcept {
  constexpr unsigned kSetFlag = 0;  // FSCONFIG_SET_FLAG
  return sys::fsconfig_string(fs, "lowerdir", Lowers(frozen).text()) &&
         sys::fsconfig_string(fs, "upperdir", "layer/upper") &&
         sys::fsconfig_string(fs, "workdir", "layer/work") &&
         ::syscall(SYS_fsconfig, fs, kSetFlag, "userxattr", nullptr, 0) == 0 &&
         ::syscall(SYS_fsconfig, fs, kSetFlag, "volatile", nullptr, 0) == 0;
}

int make_overlay(std::uint64_t frozen) noexcept {
  const int fs = sys::fsopen("overlay");
  if (fs < 0) return -1;
  int mount = -1;
  if (set_options(fs, frozen) && sys::fsconfig_create(fs)) mount = sys::fsmount(fs, kAttributes);
  sys::close_quietly(fs);
  return mount;
}

bool attach_here(int tree, const char* name) noexcept {
  return sys::move_mount(tree, "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH) &&
         is_attached(tree, AT_FDCWD, name);
}

// Without a layer of the host's, `layer` is a directory of the private tmpfs itself.
bool attach_layers(const ChildContext& context, std::uint64_t first, bool has_layer,
                   std::uint64_t frozen) noexcept {
  std::uint64_t next = first;
  if (!attach_here(context.tree_fds[next++], "below")) return false;
  if (has_layer && !attach_here(context.tree_fds[next++], "layer")) return false;
  for (std::uint64_t i = 0; i < frozen; ++i) {
    Line name;
    name.number(i);
    if (!attach_here(context.tree_fds[next++], name.text())) return false;
  }
  return true;
}

}  // namespace

bool mount_overlay(const ChildContext& context, const plan::FlatStep& step) noexcept {
  const bool has_layer = (step.b & 1U) != 0;
  const std::uint64_t frozen = step.b >> 1U;
  if (frozen > plan::kMaxFrozen ||
      step.a + (has_layer ? 1 : 0) + frozen >= context.tree_fds.size()) {
    errno = EINVAL;
    return false;
  }
  // The place first: the steps that follow stand in the new root again.
  const int place = sys::openat2(AT_FDCWD, context.strings + step.text, O_PATH,
                                 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  if (place < 0) return false;
  const int stage = ::openat(context.scratch_fd, context.strings + step.other,
                             O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  bool done = stage >= 0 && ::fchdir(stage) == 0 &&
              attach_layers(context, step.a, has_layer, frozen) && forget_volatile();
  const int mount = done ? make_overlay(frozen) : -1;
  const char* target = context.strings + step.text;
  done = mount >= 0 && ::chdir("/") == 0 && attach_on(mount, place, target);
  sys::close_quietly(mount);
  sys::close_quietly(stage);
  sys::close_quietly(place);
  return ::chdir("/") == 0 && done;
}

// No path of the box leads to the directory, so it is what it was made as.
bool hand_out_layer(ChildContext& context, const char* stage) noexcept {
  if (context.layer_count >= kMaxLayerFds) {
    errno = E2BIG;
    return false;
  }
  const int place =
      ::openat(context.scratch_fd, stage, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (place < 0) return false;
  const int upper = sys::openat2(place, "layer/upper", O_RDONLY | O_DIRECTORY,
                                 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  sys::close_quietly(place);
  if (upper < 0) return false;
  context.layer_fds[context.layer_count++] = upper;
  return true;
}

// Files are stamped with a clock that stands still for a tick of some milliseconds. When the box
// reads nothing in the tick that its layer began in, a stamp says whether a change of the original
// came before the layer's start or after what the box may have read.
bool await_clock(std::uint64_t ns) noexcept {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  constexpr std::uint64_t kLongestTick = 20'000'000;
  timespec now{};
  std::uint64_t waited = 0;
  while (true) {
    if (::clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0) return false;
    const std::uint64_t at =
        static_cast<std::uint64_t>(now.tv_sec) * kSecond + static_cast<std::uint64_t>(now.tv_nsec);
    if (at > ns) return true;
    // A clock that was set back since: the changes of such a session are told by other means.
    if (ns - at > kSecond || waited > 10 * kLongestTick) return true;
    constexpr std::uint64_t kStep = 250'000;
    const timespec step{0, kStep};
    ::nanosleep(&step, nullptr);
    waited += kStep;
  }
}

}  // namespace glovebox::launch
