#include "mcp/repl/placeholders.h"

#include "base/file.h"

#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace glovebox::mcp {
namespace {

// Told apart from a directory of a user by a mode that users do not give one.
constexpr mode_t kMark = 01555;

bool is_marked(const struct stat& info) {
  return S_ISDIR(info.st_mode) && (info.st_mode & 07777) == kMark;
}

// Whether the name still leads to the directory that was opened.
bool is_same(BorrowedFd parent, const std::string& name, BorrowedFd directory) {
  struct stat by_name{};
  struct stat by_fd{};
  return ::fstatat(parent.get(), name.c_str(), &by_name, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstat(directory.get(), &by_fd) == 0 && by_name.st_dev == by_fd.st_dev &&
         by_name.st_ino == by_fd.st_ino && is_marked(by_fd);
}

}  // namespace

bool is_placeholder(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !is_marked(info)) return false;
  std::error_code problem;  // what cannot be listed is not known to be empty
  return std::filesystem::is_empty(path, problem) && !problem;
}

void remove_placeholder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return;
  const auto parent = open_file(path.substr(0, slash + 1), O_PATH | O_DIRECTORY);
  if (!parent) return;
  const std::string name = path.substr(slash + 1);
  const auto directory = open_file_at(*parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!directory || !is_same(*parent, name, *directory)) return;
  if (::flock(directory->get(), LOCK_EX | LOCK_NB) != 0) return;
  (void)::unlinkat(parent->get(), name.c_str(), AT_REMOVEDIR);  // unless something is in it
}

Result<Placeholders> Placeholders::make(const std::vector<std::string>& names) {
  Placeholders made;
  for (const std::string& path : names) {
    const std::size_t slash = path.rfind('/');
    GLOVEBOX_CHECK(slash != std::string::npos && slash + 1 < path.size());
    Held held;
    held.name = path.substr(slash + 1);
    TRY(held.parent, open_file(path.substr(0, slash + 1), O_PATH | O_DIRECTORY));
    // Another server may remove its own between the making and the locking; then once more.
    for (int attempt = 0; !held.directory; ++attempt) {
      if (attempt == 8) return fail(Code::Os, "hold {}: it keeps going away", path);
      const bool is_made = ::mkdirat(held.parent.get(), held.name.c_str(), kMark) == 0;
      if (!is_made && errno != EEXIST) {
        return fail_os(errno, "hold {} against its creation by the box", path);
      }
      auto opened = open_file_at(held.parent, held.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      if (!opened) continue;
      // The mode once more, without the caller's umask.
      if (is_made && ::fchmod(opened->get(), kMark) != 0) return fail_os(errno, "mark {}", path);
      if (::flock(opened->get(), LOCK_SH | LOCK_NB) != 0) continue;
      if (is_same(held.parent, held.name, *opened)) held.directory = *std::move(opened);
    }
    made.held_.push_back(std::move(held));
  }
  return made;
}

void Placeholders::release() {
  for (const Held& held : held_) {
    if (::flock(held.directory.get(), LOCK_EX | LOCK_NB) != 0) continue;
    if (!is_same(held.parent, held.name, held.directory)) continue;
    // Fails when another process has put something in: then it stays.
    (void)::unlinkat(held.parent.get(), held.name.c_str(), AT_REMOVEDIR);
  }
  held_.clear();
}

}  // namespace glovebox::mcp
