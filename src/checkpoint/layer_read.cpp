#include "base/file.h"
#include "checkpoint/layer_stream.h"
#include "workspace/tree/printable.h"

#include <cerrno>
#include <ctime>
#include <limits>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace glovebox::checkpoint {
namespace {

// What a name takes on the disk, at least: its inode.
constexpr std::uint64_t kCostOfName = 256;
constexpr std::int64_t kSecond = 1'000'000'000;

auto malformed(const std::string& path, std::string_view what) {
  return fail(Code::Invalid, "the checkpoint is malformed: {}: {}", workspace::printable(path),
              what);
}

// A directory that is being filled. Its mode and time are set when everything is in it: its own
// mode may forbid to put anything there, and putting something there changes its time.
struct OpenDirectory {
  UniqueFd dir;
  EntryRecord record;  // of the root: an empty path
};

class LayerReader {
 public:
  LayerReader(RecordReader& in, workspace::MarkPrefix prefix, const LayerOwner& owner,
              const LayerBounds& bounds)
      : in_(in),
        prefix_(workspace::to_text(prefix)),
        owner_(owner),
        most_(most_of(bounds.told)),
        take_room_(bounds.take_room) {}

  Result<RecordKind> run(BorrowedFd upper) {
    OpenDirectory root;
    TRY(root.dir, workspace::open_directory(upper, "."));
    stack_.push_back(std::move(root));
    while (true) {
      TRY(const RecordKind kind, in_.next());
      if (kind == RecordKind::Data) {
        TRY_VOID(take_data());
        continue;
      }
      TRY_VOID(close_file());
      if (kind != RecordKind::Entry) {
        while (stack_.size() > 1) TRY_VOID(leave());
        return kind;
      }
      TRY(EntryRecord record, in_.entry());
      TRY_VOID(take(std::move(record)));
    }
  }

 private:
  Result<void> count(const EntryRecord& record) {
    const std::uint64_t size = record.size;
    ++content_.entries;
    if (content_.entries > most_.entries || size > most_.bytes - content_.bytes) {
      return fail(Code::Exhausted, "{}: the checkpoint holds more than it says",
                  workspace::printable(record.path));
    }
    content_.bytes += size;
    std::uint64_t names = kCostOfName + record.path.size() + record.target.size();
    for (const auto& [name, value] : record.xattrs) names += name.size() + value.size();
    return take_room(names);
  }

  Result<void> take_room(std::uint64_t bytes) {
    return take_room_ ? take_room_(bytes) : Result<void>();
  }

  Result<void> take(EntryRecord record) {
    TRY_VOID(count(record));
    const auto [above, name] = workspace::split_path(record.path);
    // Entries come as a walk visits them, so the directory is one of those that are open.
    while (stack_.size() > 1 && stack_.back().record.path != above) TRY_VOID(leave());
    if (stack_.back().record.path != above) {
      return malformed(record.path, "it is in no directory");
    }
    const BorrowedFd dir = stack_.back().dir;
    auto made = make(dir, name, std::move(record));
    if (made) return made;
    if (made.error().os_errno == EEXIST) return malformed(name, "it is there twice");
    return made;
  }

  Result<void> make(BorrowedFd dir, const std::string& name, EntryRecord record) {
    switch (record.type) {
      case EntryType::File: return make_file(dir, name, std::move(record));
      case EntryType::Directory: return make_directory(dir, name, std::move(record));
      case EntryType::Symlink:
        if (::symlinkat(record.target.c_str(), dir.get(), name.c_str()) != 0) {
          return fail_os(errno, "make a link");
        }
        return finish_at(dir, name, record);
      case EntryType::Fifo:
        if (::mkfifoat(dir.get(), name.c_str(), 0600) != 0) return fail_os(errno, "make a pipe");
        if (::fchmodat(dir.get(), name.c_str(), record.mode, 0) != 0) {
          return fail_os(errno, "set the mode of a pipe");
        }
        return finish_at(dir, name, record);
      case EntryType::Whiteout: break;
    }
    if (::mknodat(dir.get(), name.c_str(), S_IFCHR, makedev(0, 0)) != 0) {
      return fail_os(errno, "make a whiteout");
    }
    return give_away(dir, name);
  }

  Result<void> make_file(BorrowedFd dir, const std::string& name, EntryRecord record) {
    TRY(file_, open_file_at(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    if (record.size > 0 && ::ftruncate(file_.get(), static_cast<off_t>(record.size)) != 0) {
      return fail_os(errno, "make a file of {} bytes", record.size);
    }
    file_record_ = std::move(record);
    file_end_ = 0;
    return {};
  }

  Result<void> take_data() {
    TRY(const RecordReader::Data data, in_.data());
    if (!file_) return malformed("", "data without a file");
    const std::uint64_t size = file_record_.size;
    if (data.offset > size || data.bytes.size() > size - data.offset) {
      return malformed(file_record_.path, "data behind the end of the file");
    }
    // Else one file could be written over and over.
    if (data.bytes.empty() || data.offset < file_end_) {
      return malformed(file_record_.path, "data that leads nowhere");
    }
    file_end_ = data.offset + data.bytes.size();
    TRY_VOID(take_room(data.bytes.size()));
    std::string_view left = data.bytes;
    std::uint64_t at = data.offset;
    while (!left.empty()) {
      const ssize_t put = ::pwrite(file_.get(), left.data(), left.size(), static_cast<off_t>(at));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return fail_os(errno, "write {}", workspace::printable(file_record_.path));
      left.remove_prefix(static_cast<std::size_t>(put));
      at += static_cast<std::uint64_t>(put);
    }
    return {};
  }

  Result<void> close_file() {
    if (!file_) return {};
    TRY_VOID(finish(file_, file_record_));
    file_.reset();
    return {};
  }

  Result<void> make_directory(BorrowedFd dir, const std::string& name, EntryRecord record) {
    if (stack_.size() > workspace::kDeepestTree) return malformed(record.path, "too deep");
    if (::mkdirat(dir.get(), name.c_str(), 0700) != 0) return fail_os(errno, "make a directory");
    OpenDirectory opened;
    TRY(opened.dir, workspace::open_directory(dir, name));
    if (record.is_opaque) {
      TRY_VOID(workspace::set_xattr(opened.dir, prefix_ + "opaque", "y"));
    }
    opened.record = std::move(record);
    stack_.push_back(std::move(opened));
    return {};
  }

  Result<void> leave() {
    TRY_VOID(finish(stack_.back().dir, stack_.back().record));
    stack_.pop_back();
    return {};
  }

  // Owner, attributes, mode and time, in this order: each undoes what stands before it otherwise.
  Result<void> finish(BorrowedFd fd, const EntryRecord& record) {
    if (owner_.uid && ::fchown(fd.get(), *owner_.uid, owner_.gid.value_or(*owner_.uid)) != 0) {
      return fail_os(errno, "give {} away", workspace::printable(record.path));
    }
    for (const auto& [name, value] : record.xattrs) {
      TRY_VOID(workspace::set_xattr(fd, name, value));
    }
    if (record.is_copied_up) TRY_VOID(workspace::set_xattr(fd, prefix_ + "origin", ""));
    if (::fchmod(fd.get(), record.mode & 01777U) != 0) return fail_os(errno, "set a mode");
    const timespec times[2] = {{0, UTIME_OMIT}, time_of(record)};
    if (::futimens(fd.get(), times) != 0) return fail_os(errno, "set a time");
    return {};
  }

  Result<void> finish_at(BorrowedFd dir, const std::string& name, const EntryRecord& record) {
    TRY_VOID(give_away(dir, name));
    const timespec times[2] = {{0, UTIME_OMIT}, time_of(record)};
    if (::utimensat(dir.get(), name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
      return fail_os(errno, "set a time");
    }
    return {};
  }

  Result<void> give_away(BorrowedFd dir, const std::string& name) {
    if (!owner_.uid) return {};
    const gid_t group = owner_.gid.value_or(*owner_.uid);
    if (::fchownat(dir.get(), name.c_str(), *owner_.uid, group, AT_SYMLINK_NOFOLLOW) != 0) {
      return fail_os(errno, "give a name away");
    }
    return {};
  }

  static timespec time_of(const EntryRecord& record) {
    std::int64_t seconds = record.modified / kSecond;
    std::int64_t rest = record.modified % kSecond;
    if (rest < 0) {
      --seconds;
      rest += kSecond;
    }
    return {seconds, rest};
  }

  RecordReader& in_;
  std::string prefix_;
  LayerOwner owner_;
  std::vector<OpenDirectory> stack_;
  UniqueFd file_;
  EntryRecord file_record_;
  std::uint64_t file_end_ = 0;  // of its data so far
  LayerContent content_;
  LayerContent most_;
  std::function<Result<void>(std::uint64_t bytes)> take_room_;
};

}  // namespace

Result<RecordKind> read_layer(RecordReader& in, BorrowedFd upper, workspace::MarkPrefix prefix,
                              const LayerOwner& owner, const LayerBounds& bounds) {
  return LayerReader(in, prefix, owner, bounds).run(upper);
}

LayerContent most_of(const LayerContent& told) {
  constexpr std::uint64_t kSomeEntries = 10'000;
  constexpr std::uint64_t kSomeBytes = std::uint64_t{64} << 20;
  const auto more = [](std::uint64_t number, std::uint64_t some) {
    const std::uint64_t half = number / 2;
    return number > std::numeric_limits<std::uint64_t>::max() - half - some
               ? std::numeric_limits<std::uint64_t>::max()
               : number + half + some;
  };
  return {more(told.entries, kSomeEntries), more(told.bytes, kSomeBytes)};
}

}  // namespace glovebox::checkpoint
