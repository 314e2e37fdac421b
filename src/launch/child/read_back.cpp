#include "launch/child/read_back.h"

#include "launch/child/sys.h"

#include <linux/capability.h>
#include <linux/stat.h>
#include <sys/prctl.h>

namespace glovebox::launch {
namespace {

constexpr std::size_t kMostDigits = 20;

// Hands the lines of a file of /proc to `look`, cut to what fits. False with errno set when the
// file cannot be read.
class Lines {
 public:
  explicit Lines(const char* path) noexcept
      : fd_(::openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) {}
  ~Lines() { sys::close_quietly(fd_); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  // The next line, or null at the end and after an error.
  const char* next() noexcept {
    std::size_t size = 0;
    while (true) {
      if (at_ == end_ && !fill()) return nullptr;
      const char c = buffer_[at_++];
      if (c == '\n') break;
      if (size + 1 < sizeof(line_)) line_[size++] = c;
    }
    line_[size] = '\0';
    return line_;
  }

 private:
  bool fill() noexcept {
    const ssize_t count = fd_ >= 0 ? ::read(fd_, buffer_, sizeof(buffer_)) : -1;
    at_ = 0;
    end_ = count > 0 ? static_cast<std::size_t>(count) : 0;
    return count > 0;
  }

  int fd_;
  char buffer_[1024] = {};
  char line_[64] = {};
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

// What follows "NAME:\t" when the line begins so, else null.
const char* value_of(const char* line, const char* name) noexcept {
  while (*name != '\0' && *line == *name) ++line, ++name;
  return *name == '\0' && line[0] == ':' && line[1] == '\t' ? line + 2 : nullptr;
}

bool is_zero(const char* digits) noexcept {
  if (*digits == '\0') return false;
  for (; *digits != '\0'; ++digits) {
    if (*digits != '0') return false;
  }
  return true;
}

// By /proc, because prctl(2) and capset(2) are the calls that gave them up.
bool status_shows_no_power() noexcept {
  constexpr const char* kSets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
  constexpr int kExpected = 6;  // the sets, and no_new_privs
  int found = 0;
  Lines lines("/proc/self/status");
  while (const char* line = lines.next()) {
    for (const char* set : kSets) {
      const char* value = value_of(line, set);
      if (value == nullptr) continue;
      if (!is_zero(value)) return false;
      ++found;
    }
    const char* value = value_of(line, "NoNewPrivs");
    if (value == nullptr) continue;
    if (value[0] != '1' || value[1] != '\0') return false;
    ++found;
  }
  return found == kExpected;
}

bool has_no_power() noexcept {
  return status_shows_no_power() && ::prctl(PR_GET_SECUREBITS, 0, 0, 0, 0) == kLockedSecurebits;
}

bool has_own_namespaces(const ChildContext& context) noexcept {
  for (std::size_t i = 0; i < kNamespaceCount; ++i) {
    const std::uint64_t own = namespace_inode(kNamespaceNames[i]);
    if (own == 0 || context.outside_namespaces[i] == 0 || own == context.outside_namespaces[i]) {
      return false;
    }
  }
  return true;
}

// Above the root is the root itself: as long as the old one lies on top of it, that is what ".."
// leads to there.
bool has_own_root(const ChildContext& context) noexcept {
  const MountPlace root = find_mount(AT_FDCWD, "/", 0);
  const MountPlace above = find_mount(AT_FDCWD, "/..", 0);
  return root.mount != 0 && root.mount == above.mount && root.device != 0 &&
         root.device == context.root_device;
}

// The launch itself has used this call; only the filter says that there is none (filter_calls.cpp).
// Asked for nothing, the kernel would answer EINVAL.
bool filter_answers() noexcept {
  return ::syscall(SYS_openat2, -1, nullptr, nullptr, 0) == -1 && errno == ENOSYS;
}

bool stands(const ChildContext& context, plan::Wall wall) noexcept {
  switch (wall) {
    case plan::Wall::Namespaces: return has_own_namespaces(context);
    case plan::Wall::Root: return has_own_root(context);
    case plan::Wall::Privileges: return has_no_power();
    case plan::Wall::Filter: return filter_answers();
  }
  return false;
}

// "12" is 12; -1 for what is no number ("." and "..").
int number_of(const char* text) noexcept {
  int number = 0;
  if (*text == '\0') return -1;
  for (std::size_t i = 0; text[i] != '\0'; ++i) {
    if (text[i] < '0' || text[i] > '9' || i >= kMostDigits / 2) return -1;
    number = number * 10 + (text[i] - '0');
  }
  return number;
}

// struct linux_dirent64 of getdents64(2).
struct DirectoryEntry {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t size;
  std::uint8_t type;
  char name[1];
};

}  // namespace

MountPlace find_mount(int dir, const char* path, unsigned flags) noexcept {
  struct statx info{};
  const long result = ::syscall(SYS_statx, dir, path, flags | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
                                STATX_TYPE | STATX_MNT_ID, &info);
  if (result != 0 || (info.stx_mask & STATX_MNT_ID) == 0) return {};
  return {info.stx_mnt_id, std::uint64_t{info.stx_dev_major} << 32U | info.stx_dev_minor};
}

MountPlace find_mount(int tree) noexcept { return find_mount(tree, "", AT_EMPTY_PATH); }

bool is_attached(int tree, int dir, const char* path) noexcept {
  const MountPlace made = find_mount(tree);
  const MountPlace seen = find_mount(dir, path, AT_SYMLINK_NOFOLLOW);
  return (made.mount != 0 && made.mount == seen.mount) || not_in_force();
}

bool has_files_up_to(int last) noexcept {
  const int list = ::openat(AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (list < 0) return false;
  alignas(DirectoryEntry) char buffer[1024];
  bool has_last = false;
  bool has_more = false;
  long size = 0;
  while ((size = ::syscall(SYS_getdents64, list, buffer, sizeof(buffer))) > 0) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      const int fd = number_of(entry->name);
      has_last = has_last || fd == last;
      has_more = has_more || (fd > last && fd != list);
      at += entry->size;
    }
  }
  sys::close_quietly(list);
  // A list without what must be in it is none.
  return (size == 0 && has_last && !has_more) || not_in_force();
}

std::uint64_t namespace_inode(const char* name) noexcept {
  char path[32] = "/proc/self/ns/";
  std::size_t size = __builtin_strlen(path);
  for (; *name != '\0' && size + 1 < sizeof(path); ++name) path[size++] = *name;
  struct statx info{};
  if (::syscall(SYS_statx, AT_FDCWD, path, 0, STATX_INO, &info) != 0) return 0;
  return (info.stx_mask & STATX_INO) != 0 ? info.stx_ino : 0;
}

bool verify_wall(const ChildContext& context, std::uint64_t wall) noexcept {
  return stands(context, static_cast<plan::Wall>(wall)) || not_in_force();
}

}  // namespace glovebox::launch
