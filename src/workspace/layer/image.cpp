#include "workspace/layer/image.h"

#include "base/file.h"
#include "launch/loop_image.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::workspace {
namespace {

constexpr std::array<const char*, 3> kMkfs{"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4",
                                           "/usr/bin/mkfs.ext4"};
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
// ext4's own tables, its journal of 4 MiB and what it reserves come on top of the limit.
constexpr std::uint64_t kOverhead = 48 * kMiB;
constexpr std::uint64_t kOverheadShare = 32;
constexpr std::uint64_t kInodeBytes = 256;
constexpr std::uint64_t kBytesPerInode = 16 << 10;
constexpr std::uint64_t kOwnInodes = 32;  // ext4's first ones, and the directories that we make
constexpr std::uint64_t kBlock = 4096;

Result<void> format(const std::string& path, std::uint64_t inodes) {
  const char* program = find_mkfs();
  if (program == nullptr) return fail(Code::Unsupported, "mkfs.ext4 is not installed");
  std::vector<std::string> words{"mkfs.ext4",
                                 "-q",
                                 "-F",
                                 "-m",
                                 "0",
                                 "-b",
                                 "4096",
                                 "-N",
                                 fmt::format("{}", inodes),
                                 "-J",
                                 "size=4",
                                 "-E",
                                 "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
                                 path};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  char* no_environment[] = {nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int fd : {0, 1, 2}) {
    ::posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  }
  pid_t pid = 0;
  const int problem = ::posix_spawn(&pid, program, &actions, nullptr, argv.data(), no_environment);
  ::posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) return fail_os(problem, "start {}", program);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return fail_os(errno, "wait for {}", program);
  }
  if (status != 0) return fail(Code::Os, "{} could not format a layer's image", program);
  return {};
}

Result<void> make_owned(BorrowedFd root, const char* name, unsigned mode,
                        const ImageRequest& request) {
  if (::mkdirat(root.get(), name, 0700) != 0) return fail_os(errno, "make {}", name);
  if (::fchownat(root.get(), name, request.uid, request.gid, 0) != 0) {
    return fail_os(errno, "give {} to uid {}", name, request.uid);
  }
  if (::fchmodat(root.get(), name, mode, 0) != 0) return fail_os(errno, "set the mode of {}", name);
  return {};
}

Result<void> fill(BorrowedFd root, const ImageRequest& request) {
  if (::unlinkat(root.get(), "lost+found", AT_REMOVEDIR) != 0) return fail_os(errno, "lost+found");
  TRY_VOID(make_owned(root, "upper", request.upper_mode, request));
  TRY_VOID(make_owned(root, "work", 0700, request));
  // The box's user passes through the root of the image to its parts.
  if (::fchmodat(root.get(), ".", 0711, 0) != 0) return fail_os(errno, "set the image's mode");
  TRY(const UniqueFd filler, open_file_at(root, "filler", O_WRONLY | O_CREAT | O_EXCL, 0600));
  TRY(const Room room, read_room(root));
  if (room.free_bytes < request.bytes) {
    return fail(Code::Os, "a layer's image has room for {} bytes, and not for {}", room.free_bytes,
                request.bytes);
  }
  const std::uint64_t excess = (room.free_bytes - request.bytes) / kBlock * kBlock;
  if (excess > 0 && ::fallocate(filler.get(), 0, 0, static_cast<off_t>(excess)) != 0) {
    return fail_os(errno, "fill what an image has beyond its limit");
  }
  return {};
}

}  // namespace

const char* find_mkfs() {
  for (const char* path : kMkfs) {
    if (::access(path, X_OK) == 0) return path;
  }
  return nullptr;
}

Result<void> make_image(const std::string& path, const ImageRequest& request) {
  const std::uint64_t usual = std::max<std::uint64_t>(request.bytes / kBytesPerInode, 1024);
  const std::uint64_t inodes = (request.inodes != 0 ? request.inodes : usual) + kOwnInodes;
  const std::uint64_t size =
      request.bytes + request.bytes / kOverheadShare + inodes * kInodeBytes + kOverhead;
  TRY(const UniqueFd image, open_file(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  if (::ftruncate(image.get(), static_cast<off_t>(size / kBlock * kBlock)) != 0) {
    return fail_os(errno, "size {}", path);
  }
  TRY_VOID(format(path, inodes));
  TRY(const UniqueFd root, launch::mount_image(image));
  return fill(root, request);
}

// A disk refuses a large write while there is room for a small one, so what is left need not be
// nothing.
bool Room::is_full() const {
  constexpr std::uint64_t kMostLeft = 2 << 20;
  const std::uint64_t left = std::min(kMostLeft, (used_bytes + free_bytes) / 128);
  return free_bytes < std::max(kBlock, left) || free_inodes == 0;
}

Result<Room> read_room(BorrowedFd dir) {
  struct statvfs info{};
  if (::fstatvfs(dir.get(), &info) != 0) return fail_os(errno, "ask for the room in a layer");
  return Room{.used_bytes = (info.f_blocks - info.f_bfree) * info.f_frsize,
              .free_bytes = info.f_bavail * info.f_frsize,
              .free_inodes = info.f_favail};
}

}  // namespace glovebox::workspace
