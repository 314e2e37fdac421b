#include "policy/disk_lister.h"

#include "base/file.h"
#include "base/plain_text.h"

#include <cerrno>
#include <memory>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::policy {
namespace {

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};
using UniqueDir = std::unique_ptr<DIR, CloseDir>;

// openat2() says EAGAIN when something was renamed during the lookup, so that "beneath" could not
// be made sure. A process that keeps renaming must not keep us here.
constexpr int kMostAttempts = 32;

// Opens `path`, which starts with a slash, beneath the root. The fd is empty when errno says why.
UniqueFd open_beneath(BorrowedFd root, const std::string& path, int flags) {
  struct open_how how{};
  how.flags = static_cast<std::uint64_t>(flags) | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const std::string relative = path == "/" ? "." : path.substr(1);
  UniqueFd fd;
  for (int attempt = 0; attempt < kMostAttempts && !fd; ++attempt) {
    fd = UniqueFd(
        static_cast<int>(::syscall(SYS_openat2, root.get(), relative.c_str(), &how, sizeof how)));
    if (!fd && errno != EAGAIN && errno != EINTR) break;
  }
  return fd;
}

bool is_absent(int os_errno) { return os_errno == ENOENT || os_errno == ENOTDIR; }

tl::unexpected<Error> fail_open(int os_errno, const std::string& path) {
  if (os_errno == ELOOP) {
    return fail(Code::Invalid, "{}: a symlink is on the way (write the path that it leads to)",
                quoted(path));
  }
  return fail_os(os_errno, "look at {}", quoted(path));
}

EntryKind kind_of(mode_t mode) {
  return S_ISDIR(mode)   ? EntryKind::Directory
         : S_ISLNK(mode) ? EntryKind::Symlink
                         : EntryKind::Other;
}

// Nothing when the entry is gone meanwhile.
Result<std::optional<EntryKind>> kind_in(BorrowedFd dir, const dirent& entry) {
  if (entry.d_type == DT_DIR) return EntryKind::Directory;
  if (entry.d_type == DT_LNK) return EntryKind::Symlink;
  if (entry.d_type != DT_UNKNOWN) return EntryKind::Other;
  struct stat status{};
  if (::fstatat(dir.get(), entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
    return kind_of(status.st_mode);
  }
  if (is_absent(errno)) return std::optional<EntryKind>();
  return fail_os(errno, "look at {}", quoted(entry.d_name));
}

}  // namespace

Result<DiskLister> DiskLister::open() {
  TRY(UniqueFd root, open_file("/", O_PATH | O_DIRECTORY));
  return DiskLister(std::move(root));
}

// The last component is opened with O_NOFOLLOW too, so a symlink there is seen and not refused; on
// the way there RESOLVE_NO_SYMLINKS refuses it.
Result<std::optional<EntryKind>> DiskLister::look_at(const std::string& path) {
  const UniqueFd fd = open_beneath(root_, path, O_PATH | O_NOFOLLOW);
  if (!fd && is_absent(errno)) return std::optional<EntryKind>();
  if (!fd) return fail_open(errno, path);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail_os(errno, "look at {}", quoted(path));
  return kind_of(status.st_mode);
}

Result<std::vector<DirectoryEntry>> DiskLister::list(const std::string& directory,
                                                     std::size_t limit) {
  std::vector<DirectoryEntry> entries;
  UniqueFd fd = open_beneath(root_, directory, O_RDONLY | O_DIRECTORY);
  if (!fd && is_absent(errno)) return entries;
  if (!fd) return fail_open(errno, directory);
  const UniqueDir dir(::fdopendir(fd.get()));
  if (!dir) return fail_os(errno, "list {}", quoted(directory));
  const BorrowedFd borrowed(fd.release());  // closedir() closes it
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr && errno != 0) return fail_os(errno, "list {}", quoted(directory));
    if (entry == nullptr) return entries;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (entries.size() == limit) {
      return fail(Code::Exhausted, "{}: more than {} entries to look at (name a deeper directory)",
                  quoted(directory), limit);
    }
    TRY(const std::optional<EntryKind> kind, kind_in(borrowed, *entry));
    if (kind) entries.push_back({std::string(name), *kind});
  }
}

}  // namespace glovebox::policy
