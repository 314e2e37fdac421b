#include "guest/files/file_jobs.h"

#include "base/file.h"
#include "guest/files/file_parts.h"
#include "guest/files/passwd_names.h"

#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::guest {
namespace {

constexpr mode_t kDirectoryMode = 0755;
constexpr std::uint32_t kModeBits = 07777;
constexpr std::string_view kNotOfTheBox =
    ": it belongs to a user or group that the box does not have, so nothing in the box may move, "
    "change or remove it; change its owner outside";

std::uint32_t flags_of(JobKind kind) {
  switch (kind) {
    case JobKind::Info:
    case JobKind::SetAttributes: return kFollow;
    case JobKind::Write:
    case JobKind::Move: return kParents | kKeepTarget;
    case JobKind::Remove: return kRecursive | kMissingIsFine;
    case JobKind::MakeDirectory:
    case JobKind::Unpack: return kParents;
    case JobKind::Search: return kIgnoreCase;
    case JobKind::Read:
    case JobKind::List:
    case JobKind::Replace:
    case JobKind::Hash:
    case JobKind::Pack: return 0;
  }
  return 0;
}

bool is_path(std::string_view path) {
  return !path.empty() && path.size() < PATH_MAX && path.find('\0') == std::string_view::npos;
}

Result<std::string> job_info(const StartJob& job, BorrowedFd workspace) {
  NameBook names;
  const int flags = (job.flags & kFollow) != 0 ? 0 : AT_SYMLINK_NOFOLLOW;
  TRY(const Entry entry, entry_at(workspace, job.path, job.path, flags, names));
  return encode_entry(entry);
}

Result<void> job_remove(const StartJob& job, BorrowedFd workspace) {
  if (::unlinkat(workspace.get(), job.path.c_str(), 0) == 0) return {};
  int os_errno = errno;
  if (os_errno == EISDIR || os_errno == EPERM) {
    if (::unlinkat(workspace.get(), job.path.c_str(), AT_REMOVEDIR) == 0) return {};
    // EPERM was about the file, unless it is a directory after all.
    if (errno != ENOTDIR) os_errno = errno;
  }
  if (os_errno == ENOENT && (job.flags & kMissingIsFine) != 0) return {};
  return fail_os(os_errno, "remove {}", job.path);
}

Result<void> job_move(const StartJob& job, BorrowedFd workspace) {
  if ((job.flags & kParents) != 0) TRY_VOID(make_parents(workspace, job.target));
  const unsigned flags = (job.flags & kKeepTarget) != 0 ? RENAME_NOREPLACE : 0;
  if (::renameat2(workspace.get(), job.path.c_str(), workspace.get(), job.target.c_str(), flags) !=
      0) {
    return fail_os(errno, "move {} to {}", job.path, job.target);
  }
  return {};
}

Result<void> change_owner(const StartJob& job, BorrowedFd workspace, int flags) {
  if (job.owner.empty() && job.group.empty()) return {};
  NameBook names;
  TRY(const Ownership owner, names.ownership_of(job.owner, job.group));
  if (::fchownat(workspace.get(), job.path.c_str(), owner.uid, owner.gid, flags) != 0) {
    return fail_os(errno, "change the owner of {}", job.path);
  }
  return {};
}

Result<void> job_set_attributes(const StartJob& job, BorrowedFd workspace) {
  const int flags = (job.flags & kFollow) != 0 ? 0 : AT_SYMLINK_NOFOLLOW;
  TRY_VOID(change_owner(job, workspace, flags));
  if (job.mode == kAnyMode) return {};
  struct stat status{};
  if (::fstatat(workspace.get(), job.path.c_str(), &status, flags) != 0) {
    return fail_os(errno, "look at {}", job.path);
  }
  // A link has no mode of its own.
  if (S_ISLNK(status.st_mode)) return fail_os(EOPNOTSUPP, "change the mode of {}", job.path);
  if (::fchmodat(workspace.get(), job.path.c_str(), job.mode, 0) != 0) {
    return fail_os(errno, "change the mode of {}", job.path);
  }
  return {};
}

Result<void> job_make_directory(const StartJob& job, BorrowedFd workspace) {
  if ((job.flags & kParents) != 0) TRY_VOID(make_parents(workspace, job.path));
  const mode_t mode = job.mode == kAnyMode ? kDirectoryMode : job.mode;
  if (::mkdirat(workspace.get(), job.path.c_str(), mode) != 0) {
    struct stat status{};
    const bool fine = errno == EEXIST && (job.flags & kParents) != 0 &&
                      ::fstatat(workspace.get(), job.path.c_str(), &status, 0) == 0 &&
                      S_ISDIR(status.st_mode);
    if (!fine) return fail_os(errno, "make the directory {}", job.path);
    if (job.mode == kAnyMode) return {};
  }
  // The umask has had its way with the mode above.
  if (::fchmodat(workspace.get(), job.path.c_str(), mode, 0) != 0) {
    return fail_os(errno, "set the mode of {}", job.path);
  }
  return {};
}

template <class Value>
JobEnded ended_with(Result<Value> result) {
  JobEnded ended;
  if (!result) {
    ended.os_errno = static_cast<std::uint32_t>(result.error().os_errno);
    ended.code = static_cast<std::uint8_t>(result.error().code);
    ended.message = std::move(result).error().message;
    // What the kernel says of a file whose owner has no number in the box.
    if (ended.os_errno == EOVERFLOW) ended.message += kNotOfTheBox;
    return ended;
  }
  if constexpr (std::is_same_v<Value, std::uint64_t>) ended.count = *result;
  if constexpr (std::is_same_v<Value, std::string>) ended.detail = *std::move(result);
  return ended;
}

}  // namespace

JobData data_of(JobKind kind) {
  switch (kind) {
    case JobKind::Read:
    case JobKind::List:
    case JobKind::Search:
    case JobKind::Pack: return JobData::Output;
    case JobKind::Write:
    case JobKind::Unpack: return JobData::Input;
    case JobKind::Info:
    case JobKind::Remove:
    case JobKind::Move:
    case JobKind::SetAttributes:
    case JobKind::MakeDirectory:
    case JobKind::Replace:
    case JobKind::Hash: return JobData::None;
  }
  return JobData::None;
}

bool is_quick(const StartJob& job) {
  switch (job.kind) {
    case JobKind::Info:
    case JobKind::Move:
    case JobKind::SetAttributes:
    case JobKind::MakeDirectory: return true;
    case JobKind::Remove: return (job.flags & kRecursive) == 0;
    default: return false;
  }
}

Result<void> check_job(const StartJob& job) {
  if ((job.flags & ~flags_of(job.kind)) != 0) {
    return fail(Code::Invalid, "a file job with flags {:x} that it does not have", job.flags);
  }
  if (!is_path(job.path)) return fail(Code::Invalid, "a file job without a usable path");
  if (job.kind == JobKind::Move && !is_path(job.target)) {
    return fail(Code::Invalid, "a move without a usable target");
  }
  if (job.kind == JobKind::Replace && job.old_text.empty()) {
    return fail(Code::Invalid, "the text to replace must not be empty");
  }
  if (job.mode != kAnyMode && job.mode > kModeBits) {
    return fail(Code::Invalid, "{:o} is no file mode", job.mode);
  }
  return {};
}

JobEnded run_file_job(const StartJob& job, BorrowedFd workspace, BorrowedFd data) {
  if (const auto checked = check_job(job); !checked) return ended_with(checked);
  const JobPlace place{workspace, data};
  switch (job.kind) {
    case JobKind::Info: return ended_with(job_info(job, workspace));
    case JobKind::Read: return ended_with(read_content(job, place));
    case JobKind::Write: return ended_with(write_content(job, place));
    case JobKind::Remove:
      if ((job.flags & kRecursive) != 0) return ended_with(remove_tree(job, place));
      return ended_with(job_remove(job, workspace));
    case JobKind::Move: return ended_with(job_move(job, workspace));
    case JobKind::SetAttributes: return ended_with(job_set_attributes(job, workspace));
    case JobKind::MakeDirectory: return ended_with(job_make_directory(job, workspace));
    case JobKind::List: return ended_with(list_tree(job, place));
    case JobKind::Search: return ended_with(search_tree(job, place));
    case JobKind::Replace: return ended_with(replace_text(job, place));
    case JobKind::Hash: return ended_with(hash_content(job, place));
    case JobKind::Pack: return ended_with(pack_tree(job, place));
    case JobKind::Unpack: return ended_with(unpack_tree(job, place));
  }
  return ended_with(Result<void>(fail(Code::Invalid, "an unknown file job")));
}

}  // namespace glovebox::guest
