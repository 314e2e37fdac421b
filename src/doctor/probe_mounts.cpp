#include "base/result.h"
#include "doctor/kernel_calls.h"
#include "doctor/probe_trials.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace glovebox::host::probe {
namespace {

constexpr std::uint64_t kPrivateAttributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
constexpr std::uint64_t kSealed = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
constexpr unsigned kCloneTree = kOpenTreeClone | O_CLOEXEC | kRecursive;

struct Option {
  const char* key;
  const char* value;
};

// A descriptor, or how the way there failed.
using Made = Result<UniqueFd, Reply>;

Made not_made(std::string_view act) { return unexpected(failed(act)); }

// A new filesystem that is attached nowhere yet.
Made new_filesystem(const char* type, std::initializer_list<Option> options,
                    std::uint64_t attributes) {
  const UniqueFd fs = fsopen(type);
  if (!fs) return not_made(fmt::format("fsopen {}", type));
  for (const Option& option : options) {
    if (fsconfig_string(fs.get(), option.key, option.value)) continue;
    return not_made(fmt::format("fsconfig {} {}={}", type, option.key, option.value));
  }
  if (!fsconfig_create(fs.get())) return not_made(fmt::format("create {}", type));
  UniqueFd mount = fsmount(fs.get(), attributes);
  if (!mount) return not_made(fmt::format("fsmount {}", type));
  return mount;
}

bool is_sealed(int tree) {
  struct statvfs info{};
  constexpr unsigned long kWanted = ST_RDONLY | ST_NOSUID | ST_NODEV;
  return ::fstatvfs(tree, &info) == 0 && (info.f_flag & kWanted) == kWanted;
}

// Failures on the way to what a trial is about belong to the mounts below it.
Reply on_the_way(Reply reply) {
  if (reply.cause == Cause::Itself) reply.cause = Cause::MountNamespace;
  return reply;
}

// The base view in small: a tmpfs on top of "/", reached by its descriptor, with `trees` of the
// host at the same places in it.
Made make_root(std::initializer_list<const char*> trees) {
  TRY(UniqueFd root,
      new_filesystem("tmpfs", {{"mode", "0755"}, {"size", "1m"}}, kPrivateAttributes));
  if (!move_mount(root.get(), AT_FDCWD, "/")) return not_made("move_mount of a root");
  for (const char* tree : trees) {
    const UniqueFd copy = open_tree(AT_FDCWD, tree, kCloneTree);
    if (!copy || ::mkdirat(root.get(), tree + 1, 0755) != 0) {
      return not_made(fmt::format("open_tree {}", tree));
    }
    if (!move_mount(copy.get(), root.get(), tree + 1)) {
      return not_made(fmt::format("move_mount of {}", tree));
    }
  }
  return root;
}

std::optional<Reply> pivot(int root) {
  if (::fchdir(root) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0) return failed("pivot_root");
  if (::syscall(SYS_umount2, ".", kDetach) != 0) return failed("detach the old root");
  if (::chdir("/") != 0) return failed("enter the new root");
  return std::nullopt;
}

// Runs `body` as a box whose root is a view with /proc and /dev, the way real ones find them.
Reply in_viewed_box(const Stage& stage, const Body& body) {
  if (const auto problem = stand_as_launcher(stage)) return *problem;
  const Made root = make_root({"/proc", "/dev"});
  if (!root) return on_the_way(root.error());
  if (const auto stuck = pivot(root->get())) return on_the_way(*stuck);
  return in_box(stage, CLONE_NEWNS | CLONE_NEWPID, body);
}

Reply mount_proc() {
  const Made proc =
      new_filesystem("proc", {}, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  if (!proc) return proc.error();
  if (!move_mount(proc->get(), AT_FDCWD, "proc")) return failed("move_mount of proc");
  std::array<char, 16> self{};
  if (::readlink("/proc/self", self.data(), self.size() - 1) < 0) return failed("read /proc/self");
  if (std::string_view(self.data()) != "1") return wrong("it shows another pid namespace");
  return seen("fresh, shows the box alone");
}

Reply mount_devpts() {
  const Made pts = new_filesystem("devpts", {{"ptmxmode", "0666"}, {"mode", "0620"}},
                                  MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
  if (!pts) return pts.error();
  if (!move_mount(pts->get(), AT_FDCWD, "dev/pts")) return failed("move_mount of devpts");
  const UniqueFd terminal(::open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW));
  if (!terminal) return failed("open ptmx");
  int unlocked = 0;
  if (::ioctl(terminal.get(), TIOCSPTLCK, &unlocked) != 0) return failed("unlock a terminal");
  const UniqueFd peer(::ioctl(terminal.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!peer) return failed("open the terminal's other side");
  return seen("an instance of the box's own, terminal opened");
}

}  // namespace

Reply try_openat2(const Stage& /*stage*/) {
  constexpr std::uint64_t kNoLinks = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  if (!openat2(AT_FDCWD, "/usr", O_PATH, kNoLinks)) return failed("openat2 /usr");
  if (openat2(AT_FDCWD, "/proc/self/exe", O_PATH, kNoLinks)) return wrong("it followed a link");
  return seen("links are refused when asked to");
}

// Once as the launcher mounts a root, once as a box mounts its scratch space.
Reply try_tmpfs(const Stage& stage) {
  if (const auto problem = stand_as_launcher(stage)) return *problem;
  const Made root = new_filesystem("tmpfs", {{"mode", "0755"}, {"size", "1m"}}, kPrivateAttributes);
  if (!root) return root.error();
  return in_box(stage, CLONE_NEWNS, [] {
    const Made scratch = new_filesystem(
        "tmpfs", {{"mode", "0755"}, {"size", "65536"}, {"nr_inodes", "1024"}}, kPrivateAttributes);
    if (!scratch) return scratch.error();
    if (::mkdirat(scratch->get(), "made", 0700) != 0) return failed("make a directory in a tmpfs");
    return seen("fsopen, fsconfig, fsmount; sizes kept");
  });
}

Reply try_open_tree(const Stage& stage) {
  if (const auto problem = stand_as_launcher(stage)) return *problem;
  if (!open_tree(AT_FDCWD, "/usr", kCloneTree)) return failed("open_tree /usr");
  return seen("/usr copied, with what is mounted below it");
}

Reply try_mount_setattr(const Stage& stage) {
  if (const auto problem = stand_as_launcher(stage)) return *problem;
  const UniqueFd tree = open_tree(AT_FDCWD, "/usr", kCloneTree);
  if (!tree) return on_the_way(failed("open_tree /usr"));
  const MountAttributes change{.set = kSealed};
  if (!mount_setattr(tree.get(), "", AT_EMPTY_PATH | kRecursive, change)) {
    return failed("mount_setattr on /usr");
  }
  if (!is_sealed(tree.get())) return wrong("the tree is not read-only, nosuid, nodev");
  return seen("read-only, nosuid, nodev, recursively");
}

Reply try_move_mount(const Stage& stage) {
  if (const auto problem = stand_as_launcher(stage)) return *problem;
  const Made root = make_root({"/usr"});
  if (!root) return root.error();
  if (::faccessat(root->get(), "usr/bin", F_OK, 0) != 0) return wrong("nothing is attached");
  return seen("trees attached to a new root");
}

Reply try_pivot_root(const Stage& stage) {
  if (const auto problem = stand_as_launcher(stage)) return *problem;
  const Made root = make_root({"/usr"});
  if (!root) return on_the_way(root.error());
  if (const auto stuck = pivot(root->get())) return *stuck;
  if (::access("/usr/bin", F_OK) != 0) return wrong("the new root is not there");
  if (::access("/proc", F_OK) == 0) return wrong("the old root is there still");
  return seen("the old root is gone");
}

Reply try_proc(const Stage& stage) { return in_viewed_box(stage, mount_proc); }

Reply try_devpts(const Stage& stage) { return in_viewed_box(stage, mount_devpts); }

}  // namespace glovebox::host::probe
