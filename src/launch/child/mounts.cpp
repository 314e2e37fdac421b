#include "launch/child/context.h"
#include "launch/child/read_back.h"
#include "launch/child/sys.h"
#include "launch/child/text.h"

#include <linux/mount.h>
#include <sys/statvfs.h>

namespace glovebox::launch {
namespace {

constexpr int kMountDetach = 2;  // MNT_DETACH
constexpr std::uint64_t kPrivateAttributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
constexpr std::uint64_t kPrivatePropagation = 1U << 18U;  // MS_PRIVATE
constexpr unsigned kCloneTree = OPEN_TREE_CLONE | O_CLOEXEC | AT_RECURSIVE;

// A new filesystem, not attached anywhere yet, or -1.
int create_filesystem(int fs, std::uint64_t attributes) noexcept {
  int mount = -1;
  if (sys::fsconfig_create(fs)) mount = sys::fsmount(fs, attributes);
  sys::close_quietly(fs);
  return mount;
}

bool attach(int tree, int dir, const char* target) noexcept {
  const bool done = sys::move_mount(tree, "", dir, target, MOVE_MOUNT_F_EMPTY_PATH) &&
                    is_attached(tree, dir, target);
  sys::close_quietly(tree);
  return done;
}

}  // namespace

bool attach_on(int tree, int place, const char* target) noexcept {
  return sys::move_mount(tree, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) &&
         is_attached(tree, AT_FDCWD, target);
}

namespace {

// Asks the kernel what the mount is now, instead of trusting that setting it worked.
bool has_attributes(int tree, std::uint64_t attributes) noexcept {
  struct statvfs info{};
  if (::fstatvfs(tree, &info) != 0) return false;
  unsigned long wanted = 0;
  if ((attributes & MOUNT_ATTR_RDONLY) != 0) wanted |= ST_RDONLY;
  if ((attributes & MOUNT_ATTR_NOSUID) != 0) wanted |= ST_NOSUID;
  if ((attributes & MOUNT_ATTR_NODEV) != 0) wanted |= ST_NODEV;
  if ((attributes & MOUNT_ATTR_NOEXEC) != 0) wanted |= ST_NOEXEC;
  return (info.f_flag & wanted) == wanted || not_in_force();
}

void unmount_old_root(void* argument) noexcept {
  const long result = sys::raw(SYS_umount2, sys::address("/"), kMountDetach);
  if (result < 0) static_cast<Helper*>(argument)->error = static_cast<int>(-result);
}

}  // namespace

// The new root lies on top of the old one, where only its descriptor leads to it: absolute paths
// still start at the host's root, so the host's trees can be opened while the view is built.
bool mount_root(ChildContext& context) noexcept {
  const int fs = sys::fsopen("tmpfs");
  if (fs < 0) return false;
  if (!sys::fsconfig_string(fs, "mode", "0755") || !sys::fsconfig_string(fs, "size", "1m")) {
    sys::close_quietly(fs);
    return false;
  }
  context.root_fd = create_filesystem(fs, kPrivateAttributes);
  if (context.root_fd < 0) return false;
  context.root_device = find_mount(context.root_fd).device;
  return sys::move_mount(context.root_fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH);
}

bool attach_host(ChildContext& context, const char* source, const char* target,
                 std::uint64_t attributes) noexcept {
  const int tree = sys::open_tree(AT_FDCWD, source, kCloneTree);
  if (tree < 0) return false;
  // Private: what is mounted on the host later does not appear in the box.
  const sys::MountAttributes change{attributes, 0, kPrivatePropagation, 0};
  if (!sys::mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, change) ||
      !has_attributes(tree, attributes)) {
    sys::close_quietly(tree);
    return false;
  }
  return attach(tree, context.root_fd, target);
}

bool seal_root(const ChildContext& context) noexcept {
  const sys::MountAttributes change{MOUNT_ATTR_RDONLY, 0, 0, 0};
  return sys::mount_setattr(context.root_fd, "", AT_EMPTY_PATH, change) &&
         has_attributes(context.root_fd, MOUNT_ATTR_RDONLY | kPrivateAttributes);
}

// pivot_root(".", ".") puts the old root on top of the new one (pivot_root(2)). Paths start below
// it, at the new root; umount2() alone looks at what lies on top of the path it is given, so there
// "/" names the old root, whatever is mounted meanwhile.
//
// To take it away waits for every processor of the machine, so a helper does that beside the steps
// that follow, and leave_host() waits for it.
bool pivot_into_root(ChildContext& context) noexcept {
  if (::fchdir(context.root_fd) != 0) return false;
  const std::uint64_t made = find_mount(context.root_fd).mount;
  if (!sys::pivot_root(".", ".")) return false;
  // Before anything is taken away: without the pivot that would be the new root.
  if (made == 0 || find_mount(AT_FDCWD, "/", 0).mount != made) return not_in_force();
  sys::close_quietly(context.root_fd);
  context.root_fd = -1;
  if (::chdir("/") != 0) return false;
  if (context.unmount != nullptr) return start_helper(*context.unmount, unmount_old_root);
  return ::syscall(SYS_umount2, "/", kMountDetach) == 0;
}

// True for a box whose base view was finished before it began, too: there is no helper to wait for.
bool leave_host(ChildContext& context) noexcept {
  return context.base_is_built || await_helper(*context.unmount);
}

// The filesystem itself is attached, under the first of its directories: a mount that is only held
// by a descriptor would be dissolved when that is closed, which waits for the whole machine.
bool mount_scratch(ChildContext& context, std::uint64_t bytes, std::uint64_t inodes,
                   const char* target) noexcept {
  const int fs = sys::fsopen("tmpfs");
  if (fs < 0) return false;
  Line size;
  Line count;
  size.number(bytes);
  count.number(inodes);
  if (!sys::fsconfig_string(fs, "mode", "0755") || !sys::fsconfig_string(fs, "size", size.text()) ||
      !sys::fsconfig_string(fs, "nr_inodes", count.text())) {
    sys::close_quietly(fs);
    return false;
  }
  context.scratch_fd = create_filesystem(fs, kPrivateAttributes);
  return context.scratch_fd >= 0 &&
         sys::move_mount(context.scratch_fd, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) &&
         is_attached(context.scratch_fd, AT_FDCWD, target);
}

bool attach_scratch(const ChildContext& context, const char* source, const char* target) noexcept {
  const int tree =
      sys::open_tree(context.scratch_fd, source, OPEN_TREE_CLONE | O_CLOEXEC | AT_SYMLINK_NOFOLLOW);
  if (tree < 0) return false;
  return attach(tree, AT_FDCWD, target);
}

namespace {

// Something empty of the private tmpfs as a tree of its own, which no process can write, or -1.
int open_sealed(const ChildContext& context, const char* empty) noexcept {
  constexpr std::uint64_t kSealed = kPrivateAttributes | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC;
  const sys::MountAttributes change{kSealed, 0, 0, 0};
  const int tree =
      sys::open_tree(context.scratch_fd, empty, OPEN_TREE_CLONE | O_CLOEXEC | AT_SYMLINK_NOFOLLOW);
  if (tree < 0) return -1;
  if (sys::mount_setattr(tree, "", AT_EMPTY_PATH, change) && has_attributes(tree, kSealed)) {
    return tree;
  }
  sys::close_quietly(tree);
  return -1;
}

// Takes the next of several words, as a path in /proc.
const char* take_name(const char* names, Line& place) noexcept {
  for (const char* c = "proc/"; *c != '\0'; ++c) place.put(*c);
  while (*names != '\0' && *names != ' ') place.put(*names++);
  return *names == ' ' ? names + 1 : names;
}

bool is_absent(const Line& place) noexcept {
  return ::syscall(SYS_faccessat, AT_FDCWD, place.text(), F_OK) != 0 && errno == ENOENT;
}

// Copies of the first cover, sealed as that is, cover the others: the kernel copies what is
// attached.
bool cover_entries(const ChildContext& context, const char* empty, const char* names) noexcept {
  int first = -1;
  bool done = true;
  while (done && *names != '\0') {
    Line place;
    names = take_name(names, place);
    const int tree = first < 0
                         ? open_sealed(context, empty)
                         : sys::open_tree(first, "", OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH);
    const bool attached =
        tree >= 0 && place.fits() &&
        sys::move_mount(tree, "", AT_FDCWD, place.text(), MOVE_MOUNT_F_EMPTY_PATH);
    // An entry of a module that is gone since, as another call has to say too.
    const bool absent = tree >= 0 && !attached && errno == ENOENT && is_absent(place);
    done = absent || (attached && is_attached(tree, AT_FDCWD, place.text()));
    if (attached && first < 0) {
      first = tree;
    } else {
      sys::close_quietly(tree);
    }
  }
  sys::close_quietly(first);
  return done;
}

}  // namespace

bool cover_proc(const ChildContext& context, const char* files, const char* directories) noexcept {
  return cover_entries(context, plan::kEmptyFile, files) &&
         cover_entries(context, plan::kEmptyDirectory, directories);
}

// Nothing but the place that was looked up is covered: a box that ran before could have moved it,
// and put another in its place, since.
bool attach_cover(const ChildContext& context, const plan::FlatStep& step) noexcept {
  const char* target = context.strings + step.other;
  const int place = sys::openat2(AT_FDCWD, target, O_PATH,
                                 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  if (place < 0) return false;
  struct stat info{};
  bool done = ::fstat(place, &info) == 0;
  if (done && step.b != 0 && (info.st_dev != step.a || info.st_ino != step.b)) {
    errno = ESTALE;
    done = false;
  }
  const int tree = done ? open_sealed(context, context.strings + step.text) : -1;
  done = tree >= 0 && attach_on(tree, place, target);
  sys::close_quietly(tree);
  sys::close_quietly(place);
  return done;
}

bool mount_proc() noexcept {
  const int fs = sys::fsopen("proc");
  if (fs < 0) return false;
  const int mount = create_filesystem(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  return mount >= 0 && attach(mount, AT_FDCWD, "proc");
}

bool mount_terminals() noexcept {
  const int fs = sys::fsopen("devpts");
  if (fs < 0) return false;
  if (!sys::fsconfig_string(fs, "ptmxmode", "0666") || !sys::fsconfig_string(fs, "mode", "0620")) {
    sys::close_quietly(fs);
    return false;
  }
  const int mount = create_filesystem(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
  return mount >= 0 && attach(mount, AT_FDCWD, "dev/pts");
}

int open_host_tree(const char* path, const plan::FlatTree& tree, std::uint64_t attributes,
                   int userns) noexcept {
  const int place =
      sys::openat2(AT_FDCWD, path, O_PATH, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  if (place < 0) return -1;
  struct stat info{};
  int copy = -1;
  if (::fstat(place, &info) == 0) {
    if (info.st_dev == tree.device && info.st_ino == tree.inode) {
      copy = sys::open_tree(place, "", kCloneTree | AT_EMPTY_PATH);
    } else {
      errno = ESTALE;
    }
  }
  sys::close_quietly(place);
  if (copy < 0) return -1;
  sys::MountAttributes change{attributes, 0, kPrivatePropagation, 0};
  if (userns >= 0) {
    change.set |= MOUNT_ATTR_IDMAP;
    change.userns_fd = static_cast<std::uint64_t>(userns);
  }
  if (sys::mount_setattr(copy, "", AT_EMPTY_PATH | AT_RECURSIVE, change)) return copy;
  sys::close_quietly(copy);
  return -1;
}

// The target lies in trees that earlier boxes may have written, so no link on the way is followed.
bool attach_tree(const ChildContext& context, std::uint64_t index, std::uint64_t attributes,
                 const char* target) noexcept {
  if (index >= context.tree_fds.size()) {
    errno = EINVAL;
    return false;
  }
  const int tree = context.tree_fds[index];
  if (!has_attributes(tree, attributes)) return false;
  const int place = sys::openat2(AT_FDCWD, target, O_PATH,
                                 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  if (place < 0) return false;
  const bool done = attach_on(tree, place, target);
  sys::close_quietly(place);
  return done;
}

// The directory is bound onto itself: the kernel renames and removes no mount point (rename(2),
// EBUSY). The copy is mounted as what it is taken from is, with all that is mounted below it.
bool pin_directory(const char* target) noexcept {
  const int place = sys::openat2(AT_FDCWD, target, O_PATH | O_DIRECTORY,
                                 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  if (place < 0) return false;
  const int tree = sys::open_tree(place, "", kCloneTree | AT_EMPTY_PATH);
  const bool done = tree >= 0 && attach_on(tree, place, target);
  sys::close_quietly(tree);
  sys::close_quietly(place);
  return done;
}

}  // namespace glovebox::launch
