// Reading, writing, replacing and hashing the content of one file.
#include "base/file.h"
#include "base/sha256.h"
#include "guest/files/file_parts.h"
#include "guest/protocol/data_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::guest {
namespace {

constexpr mode_t kFileMode = 0644;
constexpr mode_t kPlainBits = 0777;
// A file to replace text in is held in memory twice.
constexpr std::size_t kMaxReplaced = std::size_t{64} << 20;

struct OpenedFile {
  UniqueFd fd;
  struct stat status{};
};

// Regular files only: a pipe would wait for its other end, and a device has no end.
Result<OpenedFile> open_regular(BorrowedFd workspace, const std::string& path) {
  OpenedFile file;
  TRY(file.fd, open_file_at(workspace, path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  if (::fstat(file.fd.get(), &file.status) != 0) return fail_os(errno, "look at {}", path);
  if (S_ISDIR(file.status.st_mode)) return fail_os(EISDIR, "read {}", path);
  if (!S_ISREG(file.status.st_mode)) return fail(Code::Invalid, "{} is no regular file", path);
  return file;
}

// The file that is being written, under a name of its own until it is whole. A job that is
// cancelled removes it in the signal's handler; hence the plain globals.
struct Unfinished {
  volatile sig_atomic_t dir = -1;
  std::array<char, 256> name{};
};
Unfinished unfinished;

void remove_unfinished(int /*signal*/) {
  if (unfinished.dir >= 0) ::unlinkat(unfinished.dir, unfinished.name.data(), 0);
  ::_exit(1);
}

class TemporaryFile {
 public:
  static Result<TemporaryFile> open(UniqueFd dir);
  TemporaryFile(TemporaryFile&& other) noexcept
      : dir_(std::move(other.dir_)),
        fd_(std::move(other.fd_)),
        name_(std::exchange(other.name_, {})) {}
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();

  BorrowedFd fd() const { return fd_; }
  // Gives it its name. With RENAME_NOREPLACE an existing one is an error.
  Result<void> become(const std::string& name, unsigned flags);

 private:
  TemporaryFile(UniqueFd dir, UniqueFd fd, std::string name)
      : dir_(std::move(dir)), fd_(std::move(fd)), name_(std::move(name)) {}

  UniqueFd dir_;
  UniqueFd fd_;
  std::string name_;
};

Result<TemporaryFile> TemporaryFile::open(UniqueFd dir) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof(random), 0) != sizeof(random)) {
    return fail_os(errno, "get random bytes");
  }
  std::string name = fmt::format(".glovebox-{:016x}", random);
  struct sigaction action{};
  action.sa_handler = remove_unfinished;
  ::sigaction(SIGTERM, &action, nullptr);
  std::ranges::copy(name, unfinished.name.begin());
  unfinished.name.at(name.size()) = '\0';
  unfinished.dir = dir.get();
  TRY(UniqueFd fd, open_file_at(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  return TemporaryFile(std::move(dir), std::move(fd), std::move(name));
}

TemporaryFile::~TemporaryFile() {
  // What cannot be removed was removed or replaced by others.
  if (!name_.empty()) (void)::unlinkat(dir_.get(), name_.c_str(), 0);
  if (dir_) unfinished.dir = -1;
}

Result<void> TemporaryFile::become(const std::string& name, unsigned flags) {
  if (::renameat2(dir_.get(), name_.c_str(), dir_.get(), name.c_str(), flags) != 0) {
    return fail_os(errno, "put {} in place", name);
  }
  name_.clear();
  return {};
}

// Where a write ends: links that lead to a file are followed, as open would.
struct WriteTarget {
  std::string path;
  std::optional<struct stat> existing;
};

Result<WriteTarget> find_target(BorrowedFd workspace, const std::string& path) {
  WriteTarget target{path, std::nullopt};
  const UniqueFd fd(::openat(workspace.get(), path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd && errno == ENOENT) return target;
  if (!fd) return fail_os(errno, "open {}", path);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail_os(errno, "look at {}", path);
  if (S_ISDIR(status.st_mode)) return fail_os(EISDIR, "write {}", path);
  if (!S_ISREG(status.st_mode)) return fail(Code::Invalid, "{} is no regular file", path);
  auto real = path_of(fd);
  if (real && status.st_nlink > 0) target.path = *std::move(real);
  target.existing = status;
  return target;
}

Result<void> set_attributes(BorrowedFd fd, const StartJob& job, const WriteTarget& target) {
  if (!job.owner.empty() || !job.group.empty()) {
    NameBook names;
    TRY(const Ownership owner, names.ownership_of(job.owner, job.group));
    if (::fchown(fd.get(), owner.uid, owner.gid) != 0) return fail_os(errno, "change the owner");
  }
  mode_t mode = target.existing ? target.existing->st_mode & kPlainBits : kFileMode;
  if (job.mode != kAnyMode) mode = job.mode;
  if (::fchmod(fd.get(), mode) != 0) return fail_os(errno, "set the mode");
  return {};
}

// Writes `path` as a whole: readers see the old file or the new one.
template <class Fill>
Result<std::uint64_t> write_whole_file(const StartJob& job, BorrowedFd workspace, Fill fill) {
  if ((job.flags & kParents) != 0) TRY_VOID(make_parents(workspace, job.path));
  TRY(const WriteTarget target, find_target(workspace, job.path));
  if (target.existing && (job.flags & kKeepTarget) != 0) {
    return fail_os(EEXIST, "write {}", job.path);
  }
  TRY(UniqueFd dir, open_file_at(workspace, parent_of_path(target.path), O_PATH | O_DIRECTORY));
  TRY(TemporaryFile file, TemporaryFile::open(std::move(dir)));
  TRY(const std::uint64_t count, fill(file.fd()));
  TRY_VOID(set_attributes(file.fd(), job, target));
  const unsigned flags = (job.flags & kKeepTarget) != 0 ? RENAME_NOREPLACE : 0;
  TRY_VOID(file.become(std::string(last_of_path(target.path)), flags));
  return count;
}

}  // namespace

Result<std::uint64_t> read_content(const StartJob& job, const JobPlace& place) {
  TRY(const OpenedFile file, open_regular(place.workspace, job.path));
  NameBook names;
  const std::string self = fmt::format("/proc/self/fd/{}", file.fd.get());
  // The file that was opened, whatever the path has come to mean since.
  TRY(const Entry entry, entry_at(BorrowedFd(AT_FDCWD), self, job.path, 0, names));
  DataWriter writer(place.data);
  TRY_VOID(writer.put(encode_entry(entry)));
  if (job.offset > static_cast<std::uint64_t>(INT64_MAX) ||
      ::lseek(file.fd.get(), static_cast<off_t>(job.offset), SEEK_SET) < 0) {
    return fail(Code::Invalid, "no file has an offset of {}", job.offset);
  }
  TRY_VOID(writer.flush());
  return copy_bytes(file.fd, place.data, job.limit == 0 ? kToTheEnd : job.limit);
}

Result<std::uint64_t> write_content(const StartJob& job, const JobPlace& place) {
  return write_whole_file(job, place.workspace,
                          [&](BorrowedFd to) { return copy_bytes(place.data, to, kToTheEnd); });
}

Result<std::uint64_t> replace_text(const StartJob& job, const JobPlace& place) {
  TRY(const OpenedFile file, open_regular(place.workspace, job.path));
  TRY(const std::string text, read_fd(file.fd, kMaxReplaced));
  std::string changed;
  std::uint64_t count = 0;
  std::size_t from = 0;
  while (true) {
    const std::size_t at = text.find(job.old_text, from);
    if (at == std::string::npos) break;
    changed.append(text, from, at - from).append(job.new_text);
    if (changed.size() > kMaxReplaced) return fail(Code::Exhausted, "{} gets too long", job.path);
    from = at + job.old_text.size();
    ++count;
  }
  if (count == 0) return 0;
  changed.append(text, from);
  StartJob write = job;
  write.flags = 0;
  write.mode = kAnyMode;
  const auto fill = [&](BorrowedFd to) -> Result<std::uint64_t> {
    TRY_VOID(write_all(to, changed));
    return count;
  };
  return write_whole_file(write, place.workspace, fill);
}

Result<std::string> hash_content(const StartJob& job, const JobPlace& place) {
  TRY(const OpenedFile file, open_regular(place.workspace, job.path));
  Sha256 hash;
  std::array<char, std::size_t{64} << 10> buffer;
  while (true) {
    const ssize_t size = ::read(file.fd.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return fail_os(errno, "read {}", job.path);
    if (size == 0) return hash.finish();
    hash.add({buffer.data(), static_cast<std::size_t>(size)});
  }
}

}  // namespace glovebox::guest
