#include "session/store/temporary_state.h"

#include "base/file.h"
#include "workspace/tree/tree_fs.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
// In every directory made here, because those of other programs may begin with the same letters.
constexpr const char* kMark = "remove-when-unlocked";
// Each means that another process removed a directory in the moment between its making and its
// locking.
constexpr int kTries = 16;

// The directory with a lock on it; nothing when it is not ours, or another process has the lock.
std::optional<UniqueFd> lock_own(BorrowedFd parent, const std::string& name) {
  auto dir = open_file_at(parent, name, kDirectory);
  if (!dir) return std::nullopt;
  struct stat facts = {};
  if (::fstat(dir->get(), &facts) != 0 || facts.st_uid != ::geteuid()) return std::nullopt;
  if (::flock(dir->get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  return std::move(*dir);
}

bool is_at(const UniqueFd& dir, const std::string& path) {
  struct stat held = {};
  struct stat named = {};
  return ::fstat(dir.get(), &held) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

// What cannot be removed stays: it does no harm.
void remove_dead(const std::filesystem::path& stem) {
  const auto parent = open_file(stem.parent_path(), O_RDONLY | O_DIRECTORY);
  if (!parent) return;
  const auto entries = workspace::list_directory(*parent);
  if (!entries) return;
  for (const workspace::Entry& entry : *entries) {
    if (!entry.name.starts_with(stem.filename().native())) continue;
    const auto dir = lock_own(*parent, entry.name);
    if (!dir || ::faccessat(dir->get(), kMark, F_OK, AT_SYMLINK_NOFOLLOW) != 0) continue;
    (void)workspace::remove_tree(*parent, entry.name);
  }
}

}  // namespace

Result<std::unique_ptr<TemporaryState>> TemporaryState::make(const std::string& stem) {
  remove_dead(stem);
  for (int i = 0; i < kTries; ++i) {
    std::string place = stem + "XXXXXX";
    if (::mkdtemp(place.data()) == nullptr) return fail_os(errno, "make {}", place);
    auto lock = lock_own(BorrowedFd(AT_FDCWD), place);
    if (!lock || !is_at(*lock, place)) {
      (void)::rmdir(place.c_str());  // ours, and empty, if it is still there
      continue;
    }
    std::unique_ptr<TemporaryState> state(new TemporaryState(std::move(place), *std::move(lock)));
    TRY_VOID(open_file_at(state->lock_, kMark, O_CREAT | O_WRONLY | O_EXCL, 0600));
    return state;
  }
  return fail(Code::Exhausted, "{}: somebody removes every directory made here", stem);
}

TemporaryState::~TemporaryState() {
  const std::filesystem::path place = place_;
  const auto parent = open_file(place.parent_path(), O_RDONLY | O_DIRECTORY);
  if (parent) (void)workspace::remove_tree(*parent, place.filename());
}

}  // namespace glovebox::session
