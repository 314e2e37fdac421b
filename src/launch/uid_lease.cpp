#include "launch/uid_lease.h"

#include "base/file.h"
#include "base/quantity.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>

namespace glovebox::launch {
namespace {

constexpr const char* kDirectory = "/run/glovebox";
constexpr const char* kFile = "uids";
constexpr std::uint32_t kLowestUid = 65'536;  // below live people, services and "nobody"

}  // namespace

Result<UidRange> parse_uid_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) {
    return fail(Code::Invalid, "uid range '{}' is not of the form FIRST-COUNT", text);
  }
  TRY(const std::uint64_t first, parse_count(text.substr(0, dash)));
  TRY(const std::uint64_t count, parse_count(text.substr(dash + 1)));
  constexpr std::uint64_t kEnd = 0xfffffffe;  // (uid_t)-2 and -1 are not ids
  if (first < kLowestUid || count == 0 || count > kEnd || first + count > kEnd) {
    return fail(Code::Invalid, "uid range '{}' must lie between {} and {}", text, kLowestUid, kEnd);
  }
  return UidRange{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count)};
}

Result<UidLeases> UidLeases::open(UidRange range) {
  if (::mkdir(kDirectory, 0700) != 0 && errno != EEXIST) {
    return fail_os(errno, "make {} (a writable /run is needed to lease uids)", kDirectory);
  }
  TRY(UniqueFd directory, open_file(kDirectory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  struct stat info{};
  if (::fstat(directory.get(), &info) != 0) return fail_os(errno, "{}", kDirectory);
  if (info.st_uid != 0 || (info.st_mode & 0022) != 0) {
    return fail(Code::Denied, "{} must belong to root and be writable for nobody else", kDirectory);
  }
  return UidLeases(std::move(directory), range);
}

Result<UidLease> UidLeases::take() {
  TRY(UniqueFd file, open_file_at(directory_, kFile, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  if (next_ == 0) next_ = static_cast<std::uint32_t>(::getpid());
  for (std::uint32_t tried = 0; tried < range_.count; ++tried) {
    const std::uint32_t slot = next_++ % range_.count;
    struct flock lock{};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = slot;
    lock.l_len = 1;
    // An open-file-description lock: it belongs to this descriptor, not to the process, and goes
    // when the last copy of the descriptor is closed.
    if (::fcntl(file.get(), F_OFD_SETLK, &lock) == 0) {
      return UidLease(std::move(file), range_.first + slot);
    }
    if (errno != EAGAIN && errno != EACCES) return fail_os(errno, "lock {}/{}", kDirectory, kFile);
  }
  return fail(Code::Exhausted, "all {} uids of the range are in use", range_.count);
}

}  // namespace glovebox::launch
