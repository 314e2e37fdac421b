// Trees in and out as tar archives.
#include "base/file.h"
#include "base/tar.h"
#include "guest/files/file_parts.h"
#include "guest/files/file_walk.h"
#include "guest/protocol/data_stream.h"

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::guest {
namespace {

constexpr mode_t kPlainBits = 0777;
constexpr mode_t kDirectoryMode = 0755;
// The modes of directories are set last, and remembered until then.
constexpr std::size_t kMaxDirectories = 1'000'000;

class Packer {
 public:
  explicit Packer(BorrowedFd data) : writer_(data) {}

  Result<Descend> pack(BorrowedFd dir, const std::string& name, std::string path);
  Result<std::uint64_t> finish();

 private:
  Result<void> put_content(BorrowedFd file, const TarMember& member);

  DataWriter writer_;
  std::uint64_t count_ = 0;
};

Result<Descend> Packer::pack(BorrowedFd dir, const std::string& name, std::string path) {
  struct stat status{};
  if (::fstatat(dir.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return Descend::No;  // it went away meanwhile
    return fail_os(errno, "look at {}", path);
  }
  TarMember member;
  member.path = std::move(path);
  member.mode = status.st_mode & kPlainBits;
  member.modified = status.st_mtime;
  UniqueFd file;
  if (S_ISDIR(status.st_mode)) {
    member.kind = TarMember::Kind::Directory;
    member.path += '/';
  } else if (S_ISLNK(status.st_mode)) {
    member.kind = TarMember::Kind::Symlink;
    std::array<char, 4096> target;
    const ssize_t size = ::readlinkat(dir.get(), name.c_str(), target.data(), target.size());
    if (size < 0) return fail_os(errno, "read the link {}", member.path);
    member.target.assign(target.data(), static_cast<std::size_t>(size));
  } else if (S_ISREG(status.st_mode)) {
    TRY(file, open_file_at(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return Descend::No;
    member.size = static_cast<std::uint64_t>(status.st_size);
  } else {
    return Descend::No;  // pipes, sockets and devices are not content
  }
  TRY_VOID(writer_.put(format_tar_member(member)));
  if (file) TRY_VOID(put_content(file, member));
  ++count_;
  return member.kind == TarMember::Kind::Directory ? Descend::Yes : Descend::No;
}

Result<void> Packer::put_content(BorrowedFd file, const TarMember& member) {
  TRY(std::uint64_t done, writer_.put_file(file, member.size));
  // A file that shrinks while it is read is filled up: its size is already written.
  const std::string zeros(kTarBlock, '\0');
  while (done < member.size) {
    const std::size_t part = std::min<std::uint64_t>(zeros.size(), member.size - done);
    TRY_VOID(writer_.put(std::string_view(zeros).substr(0, part)));
    done += part;
  }
  return writer_.put(std::string_view(zeros).substr(0, tar_padding(member.size)));
}

Result<std::uint64_t> Packer::finish() {
  TRY_VOID(writer_.put(std::string(2 * kTarBlock, '\0')));
  TRY_VOID(writer_.flush());
  return count_;
}

class Unpacker {
 public:
  Unpacker(BorrowedFd root, BorrowedFd data) : root_(root), reader_(data) {}

  Result<std::uint64_t> unpack();

 private:
  Result<std::optional<TarMember>> next_member();
  Result<void> take_record(char type, std::uint64_t size, TarOverrides& overrides);
  Result<void> make(const TarMember& member, const std::string& path);
  Result<void> make_file(BorrowedFd dir, const std::string& name, const TarMember& member);
  Result<void> make_link(BorrowedFd dir, const std::string& name, const TarMember& member);
  Result<void> make_directory(BorrowedFd dir, const std::string& name, const TarMember& member,
                              const std::string& path);
  Result<void> enter(const std::string& parent);
  Result<UniqueFd> open_below(const std::string& path, int flags) const;

  BorrowedFd root_;
  DataReader reader_;
  // Members of one directory mostly follow one another.
  std::string current_;
  UniqueFd current_dir_;
  std::vector<std::pair<std::string, mode_t>> directories_;
};

// Links inside the tree are followed, but none leads out of it: an archive must not depend on what
// lies elsewhere in the box. openat2, which would not leave the tree, is absent in a box.
Result<UniqueFd> Unpacker::open_below(const std::string& path, int flags) const {
  TRY(UniqueFd fd, open_file_at(root_, path.empty() ? "." : path, flags));
  TRY(const std::string root, path_of(root_));
  TRY(const std::string place, path_of(fd));
  if (place != root && !place.starts_with(root == "/" ? root : root + "/")) {
    return fail_os(EXDEV, "open {}", path);
  }
  return fd;
}

Result<void> Unpacker::enter(const std::string& parent) {
  if (current_dir_ && parent == current_) return {};
  auto dir = open_below(parent, O_PATH | O_DIRECTORY);
  if (!dir && dir.error().os_errno == ENOENT) {
    TRY_VOID(enter(parent_of_path(parent) == "." ? "" : parent_of_path(parent)));
    const std::string name(last_of_path(parent));
    if (::mkdirat(current_dir_.get(), name.c_str(), kDirectoryMode) != 0 && errno != EEXIST) {
      return fail_os(errno, "make the directory {}", parent);
    }
    dir = open_below(parent, O_PATH | O_DIRECTORY);
  }
  if (!dir) return tl::unexpected(std::move(dir).error());
  current_dir_ = *std::move(dir);
  current_ = parent;
  return {};
}

Result<void> Unpacker::make_file(BorrowedFd dir, const std::string& name, const TarMember& member) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  auto file = open_file_at(dir, name, kFlags, 0600);
  if (!file && file.error().os_errno == EEXIST) {
    if (::unlinkat(dir.get(), name.c_str(), 0) != 0) return fail_os(errno, "replace {}", name);
    file = open_file_at(dir, name, kFlags, 0600);
  }
  if (!file) return tl::unexpected(std::move(file).error());
  TRY_VOID(reader_.take_to_file(*file, member.size));
  if (::fchmod(file->get(), member.mode & kPlainBits) != 0) return fail_os(errno, "chmod {}", name);
  const timespec times[2] = {{0, UTIME_OMIT}, {static_cast<time_t>(member.modified), 0}};
  if (::futimens(file->get(), times) != 0) return fail_os(errno, "set the time of {}", name);
  return reader_.skip(tar_padding(member.size));
}

Result<void> Unpacker::make_link(BorrowedFd dir, const std::string& name, const TarMember& member) {
  UniqueFd target;
  if (member.kind == TarMember::Kind::HardLink) {
    TRY(const std::string path, clean_member_path(member.target));
    TRY(target, open_below(path, O_PATH | O_NOFOLLOW));
  }
  const auto link_it = [&] {
    if (member.kind == TarMember::Kind::Symlink) {
      return ::symlinkat(member.target.c_str(), dir.get(), name.c_str());
    }
    const std::string self = fmt::format("/proc/self/fd/{}", target.get());
    return ::linkat(AT_FDCWD, self.c_str(), dir.get(), name.c_str(), AT_SYMLINK_FOLLOW);
  };
  int done = link_it();
  if (done != 0 && errno == EEXIST && ::unlinkat(dir.get(), name.c_str(), 0) == 0) done = link_it();
  if (done != 0) return fail_os(errno, "link {}", name);
  return {};
}

Result<void> Unpacker::make_directory(BorrowedFd dir, const std::string& name,
                                      const TarMember& member, const std::string& path) {
  if (::mkdirat(dir.get(), name.c_str(), 0700) != 0) {
    struct stat status{};
    if (errno != EEXIST || ::fstatat(dir.get(), name.c_str(), &status, 0) != 0 ||
        !S_ISDIR(status.st_mode)) {
      return fail_os(EEXIST, "make the directory {}", path);
    }
  }
  if (directories_.size() >= kMaxDirectories) {
    return fail(Code::Exhausted, "an archive with more than {} directories", kMaxDirectories);
  }
  directories_.emplace_back(path, member.mode & kPlainBits);
  return {};
}

Result<void> Unpacker::make(const TarMember& member, const std::string& path) {
  const std::string parent = parent_of_path(path);
  TRY_VOID(enter(parent == "." ? "" : parent));
  const std::string name(last_of_path(path));
  switch (member.kind) {
    case TarMember::Kind::File: return make_file(current_dir_, name, member);
    case TarMember::Kind::Directory: return make_directory(current_dir_, name, member, path);
    case TarMember::Kind::Symlink:
    case TarMember::Kind::HardLink: return make_link(current_dir_, name, member);
  }
  return {};
}

Result<void> Unpacker::take_record(char type, std::uint64_t size, TarOverrides& overrides) {
  if (size > kMaxTarRecord) return fail(Code::Invalid, "a record of {} bytes in an archive", size);
  std::string record(size, '\0');
  TRY(const std::size_t taken, reader_.take(record));
  if (taken != size) return fail(Code::Invalid, "the archive ends too early");
  TRY_VOID(reader_.skip(tar_padding(size)));
  if (type == 'x') return parse_pax(record, overrides);
  record.resize(std::min(record.size(), record.find('\0')));
  if (type == 'L') overrides.path = record;
  if (type == 'K') overrides.target = record;
  return {};  // a global pax record ('g') says nothing that is needed
}

Result<std::optional<TarMember>> Unpacker::next_member() {
  TarOverrides overrides;
  while (true) {
    TarBlock block;
    TRY(const std::size_t taken, reader_.take(block));
    if (taken != block.size()) return fail(Code::Invalid, "the archive ends too early");
    TRY(std::optional<TarHeader> header, parse_tar_header(block));
    if (!header) return std::nullopt;
    TarMember& member = header->member;
    switch (header->type) {
      case 'x':
      case 'g':
      case 'L':
      case 'K': TRY_VOID(take_record(header->type, member.size, overrides)); continue;
      case '0':
      case '7': member.kind = TarMember::Kind::File; break;
      case '1': member.kind = TarMember::Kind::HardLink; break;
      case '2': member.kind = TarMember::Kind::Symlink; break;
      case '5': member.kind = TarMember::Kind::Directory; break;
      default:
        return fail(Code::Unsupported, "{}: members of type '{}' are not unpacked", member.path,
                    header->type);
    }
    if (overrides.path) member.path = *std::move(overrides.path);
    if (overrides.target) member.target = *std::move(overrides.target);
    if (overrides.size) member.size = *overrides.size;
    if (overrides.modified) member.modified = *overrides.modified;
    return std::move(member);
  }
}

Result<std::uint64_t> Unpacker::unpack() {
  std::uint64_t count = 0;
  while (true) {
    TRY(const std::optional<TarMember> member, next_member());
    if (!member) break;
    TRY(const std::string path, clean_member_path(member->path));
    if (path.empty()) continue;  // the root itself
    TRY_VOID(make(*member, path));
    ++count;
  }
  for (auto directory = directories_.rbegin(); directory != directories_.rend(); ++directory) {
    TRY(const UniqueFd fd, open_below(directory->first, O_RDONLY | O_DIRECTORY));
    if (::fchmod(fd.get(), directory->second) != 0) {
      return fail_os(errno, "chmod {}", directory->first);
    }
  }
  return count;
}

}  // namespace

Result<std::uint64_t> pack_tree(const StartJob& job, const JobPlace& place) {
  Packer packer(place.data);
  struct stat status{};
  if (::fstatat(place.workspace.get(), job.path.c_str(), &status, 0) != 0) {
    return fail_os(errno, "look at {}", job.path);
  }
  if (!S_ISDIR(status.st_mode)) {
    TRY_VOID(packer.pack(place.workspace, job.path, std::string(last_of_path(job.path))));
    return packer.finish();
  }
  TRY(const UniqueFd root, open_file_at(place.workspace, job.path, O_RDONLY | O_DIRECTORY));
  TRY_VOID(walk(root, "", 1, [&](const WalkPoint& point) {
    return packer.pack(point.dir, point.name, point.path);
  }));
  return packer.finish();
}

Result<std::uint64_t> unpack_tree(const StartJob& job, const JobPlace& place) {
  if ((job.flags & kParents) != 0) {
    TRY_VOID(make_parents(place.workspace, job.path));
    if (::mkdirat(place.workspace.get(), job.path.c_str(), kDirectoryMode) != 0 &&
        errno != EEXIST) {
      return fail_os(errno, "make the directory {}", job.path);
    }
  }
  TRY(const UniqueFd root, open_file_at(place.workspace, job.path, O_PATH | O_DIRECTORY));
  Unpacker unpacker(root, place.data);
  TRY(const std::uint64_t count, unpacker.unpack());
  // What comes after the archive's end is read to the end, so that its writer does not fail.
  std::array<char, 4096> rest;
  while (::read(place.data.get(), rest.data(), rest.size()) > 0) {
  }
  return count;
}

}  // namespace glovebox::guest
