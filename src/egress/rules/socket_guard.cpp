#include "egress/rules/socket_guard.h"

#include "base/file.h"
#include "egress/rules/egress_rules.h"
#include "host/path_facts.h"

#include <cerrno>
#include <optional>

#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace glovebox::egress {
namespace {

constexpr unsigned long kBoundFile = SIOCPROTOPRIVATE;  // SIOCUNIXFILE

UniqueFd open_place(BorrowedFd root, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS;
  return UniqueFd(
      static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof(how))));
}

std::optional<struct statx> look_at(BorrowedFd file) {
  struct statx facts{};
  if (::statx(file.get(), "", AT_EMPTY_PATH, STATX_MNT_ID, &facts) != 0) return std::nullopt;
  if ((facts.stx_mask & STATX_MNT_ID) == 0) return std::nullopt;
  return facts;
}

}  // namespace

// A place that is no mount point is something else by now, and is not the box's.
void SocketGuard::learn(BorrowedFd root) {
  mounts_.clear();
  for (const std::string& path : places_) {
    const UniqueFd place = open_place(root, path);
    if (!place) continue;
    const auto facts = look_at(place);
    if (facts && (facts->stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) {
      mounts_.insert(facts->stx_mnt_id);
    }
  }
}

bool SocketGuard::may_connect(BorrowedFd found) const {
  const auto facts = look_at(found);
  if (facts && mounts_.contains(facts->stx_mnt_id)) return true;
  struct stat info{};
  if (::fstat(found.get(), &info) != 0) return false;
  // The kernel connects to sockets alone.
  return !S_ISSOCK(info.st_mode) || own_.contains({info.st_dev, info.st_ino});
}

int SocketGuard::add_own(BorrowedFd socket) {
  UniqueFd file(::ioctl(socket.get(), kBoundFile, 0));
  if (!file) return errno == ENOENT ? 0 : errno;  // without a path, or not bound
  const auto facts = look_at(file);
  if (facts && mounts_.contains(facts->stx_mnt_id)) return 0;  // it needs no word for itself
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return errno;
  const Inode inode{info.st_dev, info.st_ino};
  if (own_.contains(inode)) return 0;
  if (!has_room()) forget_removed();
  if (!has_room()) return ENOBUFS;
  own_.emplace(inode, std::move(file));
  ++kept_.count;
  return 0;
}

bool SocketGuard::has_room() const {
  return own_.size() < kMostOwn && leaves_enough(own_.size(), kept_.count, kept_.most);
}

// One without a name is found by no path any more.
void SocketGuard::forget_removed() {
  kept_.count -= std::erase_if(own_, [](const auto& entry) {
    struct stat info{};
    return ::fstat(entry.second.get(), &info) != 0 || info.st_nlink == 0;
  });
}

std::string SocketGuard::path_outside(BorrowedFd found) const {
  const auto inside = path_of(found);
  if (!inside) return {};
  for (const plan::MovedTree& tree : moved_) {
    if (host::is_within(*inside, tree.inside)) {
      return tree.outside + inside->substr(tree.inside.size());
    }
  }
  return *inside;
}

}  // namespace glovebox::egress
