#include "mcp/repl/checkpoint_place.h"

#include "base/file.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::mcp {
namespace {

constexpr std::string_view kSuffix = ".checkpoint";
constexpr std::size_t kPiece = std::size_t{256} << 10;

bool is_letter_or_digit(char each) {
  return (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
         (each >= '0' && each <= '9');
}

Result<UniqueFd> open_directory(const CheckpointPlace& place) {
  return open_file(place.directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

Result<void> copy(BorrowedFd from, std::uint64_t size, BorrowedFd to) {
  const auto piece = std::make_unique<char[]>(kPiece);
  std::uint64_t done = 0;
  while (done < size) {
    const ssize_t got =
        ::pread(from.get(), piece.get(), std::min<std::uint64_t>(kPiece, size - done),
                static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_os(errno, "read the checkpoint");
    if (got == 0) return fail(Code::Os, "the checkpoint ends early");
    TRY_VOID(write_all(to, {piece.get(), static_cast<std::size_t>(got)}));
    done += static_cast<std::uint64_t>(got);
  }
  return {};
}

}  // namespace

Result<CheckpointPlace> open_checkpoint_place(const std::string& directory,
                                              const checkpoint::Key& key) {
  std::error_code problem;
  const std::string path = std::filesystem::canonical(directory, problem).string();
  if (problem)
    return fail_os(problem.value(),
                   "find the directory of checkpoints {} (make it with 'mkdir -m 700')", directory);
  TRY(const UniqueFd dir, open_file(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  struct stat facts{};
  if (::fstat(dir.get(), &facts) != 0) return fail_os(errno, "look at {}", path);
  if (facts.st_uid != ::geteuid() || (facts.st_mode & 022U) != 0) {
    return fail(Code::Denied,
                "{}: checkpoints are kept only in a directory of your own that nobody else may "
                "write to (chmod 700)",
                path);
  }
  return CheckpointPlace{path, key};
}

Result<void> check_checkpoint_name(std::string_view name) {
  const auto is_fine = [](char each) {
    return is_letter_or_digit(each) || each == '-' || each == '_' || each == '.';
  };
  if (name.empty() || name.size() > kMaxCheckpointName || !is_letter_or_digit(name.front()) ||
      !std::ranges::all_of(name, is_fine)) {
    return fail(Code::Invalid,
                "checkpoint must be a name of 1 to {} letters, digits, '-', '_' and '.', and begin "
                "with a letter or digit",
                kMaxCheckpointName);
  }
  return {};
}

Result<std::vector<KeptCheckpoint>> list_checkpoints(const CheckpointPlace& place) {
  TRY(UniqueFd dir, open_directory(place));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(dir.get()), &::closedir);
  if (!entries) return fail_os(errno, "list {}", place.directory);
  const BorrowedFd at(dir.release());  // the entries' own now
  std::vector<KeptCheckpoint> kept;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (!name.ends_with(kSuffix)) continue;
    const std::string stem(name.substr(0, name.size() - kSuffix.size()));
    struct stat facts{};
    const bool is_there = ::fstatat(at.get(), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0;
    if (!is_there || !S_ISREG(facts.st_mode) || !check_checkpoint_name(stem)) continue;
    kept.push_back({stem, static_cast<std::uint64_t>(facts.st_size)});
  }
  std::ranges::sort(kept, {}, &KeptCheckpoint::name);
  return kept;
}

Result<void> keep_checkpoint(const CheckpointPlace& place, const std::string& name, BorrowedFd from,
                             std::uint64_t size) {
  TRY_VOID(check_checkpoint_name(name));
  TRY(const std::vector<KeptCheckpoint> kept, list_checkpoints(place));
  if (kept.size() >= kMaxCheckpoints) {
    return fail(Code::Exhausted, "there are {} checkpoints, and there can be no more",
                kMaxCheckpoints);
  }
  TRY(const UniqueFd dir, open_directory(place));
  TRY(const UniqueFd draft, open_file(place.directory, O_WRONLY | O_TMPFILE, 0600));
  TRY_VOID(copy(from, size, draft));
  if (::fsync(draft.get()) != 0) return fail_os(errno, "write the checkpoint");
  const std::string self = fmt::format("/proc/self/fd/{}", draft.get());
  const std::string file = name + std::string(kSuffix);
  if (::linkat(AT_FDCWD, self.c_str(), dir.get(), file.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    if (errno == EEXIST) return fail(Code::Denied, "there is a checkpoint '{}' already", name);
    return fail_os(errno, "name the checkpoint {}", name);
  }
  if (::fsync(dir.get()) != 0) return fail_os(errno, "write {}", place.directory);
  return {};
}

Result<UniqueFd> open_checkpoint(const CheckpointPlace& place, const std::string& name) {
  TRY_VOID(check_checkpoint_name(name));
  TRY(const UniqueFd dir, open_directory(place));
  const std::string path = name + std::string(kSuffix);
  const int fd =
      ::openat(dir.get(), path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return fail(Code::NotFound, "there is no checkpoint '{}'", name);
  if (fd < 0) return fail_os(errno, "open the checkpoint {}", name);
  UniqueFd file(fd);
  struct stat facts{};
  if (::fstat(file.get(), &facts) != 0) return fail_os(errno, "look at the checkpoint {}", name);
  if (!S_ISREG(facts.st_mode)) return fail(Code::Invalid, "'{}' is no checkpoint", name);
  return file;
}

}  // namespace glovebox::mcp
