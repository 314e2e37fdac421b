// Entries, and the jobs that walk trees: list, search, remove.
#include "guest/files/file_walk.h"

#include "base/file.h"
#include "guest/files/file_parts.h"
#include "guest/files/search_glob.h"
#include "guest/protocol/data_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::guest {
namespace {

constexpr mode_t kDirectoryMode = 0755;

EntryKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return EntryKind::File;
  if (S_ISDIR(mode)) return EntryKind::Directory;
  if (S_ISLNK(mode)) return EntryKind::Symlink;
  return EntryKind::Other;
}

std::uint64_t to_ns(const statx_timestamp& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + time.tv_nsec;
}

Result<std::string> target_of(BorrowedFd dir, const std::string& name) {
  std::array<char, 4096> target;
  const ssize_t size = ::readlinkat(dir.get(), name.c_str(), target.data(), target.size());
  if (size < 0) return fail_os(errno, "read the link {}", name);
  return std::string(target.data(), static_cast<std::size_t>(size));
}

}  // namespace

std::string_view last_of_path(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path.substr(path.rfind('/') + 1);
}

std::string parent_of_path(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

Result<void> make_parents(BorrowedFd dir, std::string_view path) {
  const std::string parent = parent_of_path(path);
  struct stat status{};
  if (::fstatat(dir.get(), parent.c_str(), &status, 0) == 0) return {};
  for (std::size_t at = parent.find('/', 1);; at = parent.find('/', at + 1)) {
    const std::string above = parent.substr(0, at);
    if (::mkdirat(dir.get(), above.c_str(), kDirectoryMode) != 0 && errno != EEXIST) {
      return fail_os(errno, "make the directory {}", above);
    }
    if (at == std::string::npos) return {};
  }
}

Result<Entry> entry_at(BorrowedFd dir, const std::string& name, std::string path, int flags,
                       NameBook& names) {
  struct statx status{};
  if (::statx(dir.get(), name.c_str(), flags, STATX_BASIC_STATS | STATX_BTIME, &status) != 0) {
    return fail_os(errno, "look at {}", path);
  }
  Entry entry;
  entry.kind = kind_of(status.stx_mode);
  entry.mode = status.stx_mode & 0777U;
  entry.uid = status.stx_uid;
  entry.gid = status.stx_gid;
  entry.size = status.stx_size;
  entry.modified_ns = to_ns(status.stx_mtime);
  entry.created_ns =
      to_ns((status.stx_mask & STATX_BTIME) != 0 ? status.stx_btime : status.stx_ctime);
  entry.owner = names.user_name(entry.uid);
  entry.group = names.group_name(entry.gid);
  entry.path = std::move(path);
  if (entry.kind == EntryKind::Symlink) {
    TRY(entry.target, target_of(dir, name));
  }
  return entry;
}

Result<std::vector<std::string>> names_in(BorrowedFd dir) {
  const int copy = ::openat(dir.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return fail_os(errno, "open a directory");
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(copy), ::closedir);
  if (listing == nullptr) return fail_os(errno, "read a directory");
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(listing.get())) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  if (errno != 0) return fail_os(errno, "read a directory");
  std::ranges::sort(names);
  return names;
}

Result<void> walk(BorrowedFd dir, const std::string& below, std::uint64_t depth,
                  const Visit& visit) {
  if (depth > kMaxWalkDepth) {
    return fail(Code::Exhausted, "{}: directories more than {} deep", below, kMaxWalkDepth);
  }
  TRY(const std::vector<std::string> names, names_in(dir));
  for (const std::string& name : names) {
    const WalkPoint point{dir, name, below.empty() ? name : fmt::format("{}/{}", below, name),
                          depth};
    TRY(const Descend descend, visit(point));
    if (descend == Descend::Stop) return {};
    if (descend == Descend::No) continue;
    // Only what is a directory itself, and only if it still is one.
    UniqueFd child(
        ::openat(dir.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!child && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) continue;
    if (!child) return fail_os(errno, "open {}", point.path);
    TRY_VOID(walk(child, point.path, depth + 1, visit));
  }
  return {};
}

namespace {

std::string joined(std::string_view root, std::string_view below) {
  if (root.ends_with('/')) return fmt::format("{}{}", root, below);
  return fmt::format("{}/{}", root, below);
}

// An entry that went away between being read and being looked at is left out.
bool is_gone(const Error& error) { return error.os_errno == ENOENT; }

}  // namespace

Result<std::uint64_t> list_tree(const StartJob& job, const JobPlace& place) {
  TRY(const UniqueFd root, open_file_at(place.workspace, job.path, O_RDONLY | O_DIRECTORY));
  DataWriter writer(place.data);
  NameBook names;
  std::uint64_t count = 0;
  const Visit visit = [&](const WalkPoint& point) -> Result<Descend> {
    auto entry =
        entry_at(point.dir, point.name, joined(job.path, point.path), AT_SYMLINK_NOFOLLOW, names);
    if (!entry && is_gone(entry.error())) return Descend::No;
    if (!entry) return tl::unexpected(std::move(entry).error());
    TRY_VOID(writer.put(encode_entry(*entry)));
    ++count;
    const bool deeper = job.limit == 0 || point.depth < job.limit;
    return entry->kind == EntryKind::Directory && deeper ? Descend::Yes : Descend::No;
  };
  TRY_VOID(walk(root, "", 1, visit));
  TRY_VOID(writer.flush());
  return count;
}

Result<std::uint64_t> search_tree(const StartJob& job, const JobPlace& place) {
  const auto letters = (job.flags & kIgnoreCase) != 0 ? Glob::Case::Ignored : Glob::Case::Sensitive;
  TRY(const Glob glob, Glob::parse(job.target.empty() ? "**" : job.target, letters));
  TRY(const UniqueFd root, open_file_at(place.workspace, job.path, O_RDONLY | O_DIRECTORY));
  DataWriter writer(place.data);
  NameBook names;
  std::uint64_t count = 0;
  const Visit visit = [&](const WalkPoint& point) -> Result<Descend> {
    if (job.limit != 0 && count >= job.limit) return Descend::Stop;
    auto entry =
        entry_at(point.dir, point.name, joined(job.path, point.path), AT_SYMLINK_NOFOLLOW, names);
    if (!entry && is_gone(entry.error())) return Descend::No;
    if (!entry) return tl::unexpected(std::move(entry).error());
    if (glob.matches(point.path)) {
      TRY_VOID(writer.put(encode_entry(*entry)));
      ++count;
    }
    return entry->kind == EntryKind::Directory ? Descend::Yes : Descend::No;
  };
  TRY_VOID(walk(root, "", 1, visit));
  TRY_VOID(writer.flush());
  return count;
}

namespace {

// Removes what is in `dir`, then the caller removes `dir`. Names come back until none is left,
// because others may add some meanwhile; a bound keeps that from going on for ever.
Result<std::uint64_t> empty_directory(BorrowedFd dir, std::uint64_t depth) {
  if (depth > kMaxWalkDepth) {
    return fail(Code::Exhausted, "directories more than {} deep", kMaxWalkDepth);
  }
  std::uint64_t count = 0;
  TRY(const std::vector<std::string> names, names_in(dir));
  for (const std::string& name : names) {
    if (::unlinkat(dir.get(), name.c_str(), 0) != 0) {
      if (errno == ENOENT) continue;
      if (errno != EISDIR && errno != EPERM) return fail_os(errno, "remove {}", name);
      const UniqueFd child(
          ::openat(dir.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!child) return fail_os(errno, "remove {}", name);
      TRY(const std::uint64_t below, empty_directory(child, depth + 1));
      if (::unlinkat(dir.get(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
        return fail_os(errno, "remove {}", name);
      }
      count += below;
    }
    ++count;
  }
  return count;
}

}  // namespace

Result<std::uint64_t> remove_tree(const StartJob& job, const JobPlace& place) {
  if (::unlinkat(place.workspace.get(), job.path.c_str(), 0) == 0) return 1;
  if (errno == ENOENT && (job.flags & kMissingIsFine) != 0) return 0;
  if (errno != EISDIR && errno != EPERM) return fail_os(errno, "remove {}", job.path);
  TRY(const UniqueFd root,
      open_file_at(place.workspace, job.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  TRY(const std::uint64_t count, empty_directory(root, 1));
  if (::unlinkat(place.workspace.get(), job.path.c_str(), AT_REMOVEDIR) != 0) {
    return fail_os(errno, "remove {}", job.path);
  }
  return count + 1;
}

}  // namespace glovebox::guest
