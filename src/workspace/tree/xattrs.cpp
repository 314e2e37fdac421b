#include "workspace/tree/xattrs.h"

#include "workspace/tree/printable.h"

#include <array>
#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

namespace glovebox::workspace {
namespace {

// Numbers of Linux 6.13; the same on every architecture. Older kernels say ENOSYS.
constexpr long kGetXattrAt = 464;
constexpr long kListXattrAt = 465;

struct XattrArgs {
  std::uint64_t value;
  std::uint32_t size;
  std::uint32_t flags;
};

// Asked once: whether the kernel has the calls that take a directory. Only a hint about speed.
std::atomic<bool> has_at_calls{true};

std::string path_in(BorrowedFd dir, const std::string& name) {
  return fmt::format("{}/{}", descriptor_path(dir), name);
}

bool is_none(int error) { return error == ENODATA || error == EOPNOTSUPP; }

ssize_t list_raw(BorrowedFd dir, const std::string& name, char* out, std::size_t size) {
  if (has_at_calls.load(std::memory_order_relaxed)) {
    const long n = ::syscall(kListXattrAt, dir.get(), name.c_str(), AT_SYMLINK_NOFOLLOW, out, size);
    if (n >= 0 || errno != ENOSYS) return n;
    has_at_calls.store(false, std::memory_order_relaxed);
  }
  return ::llistxattr(path_in(dir, name).c_str(), out, size);
}

ssize_t get_raw(BorrowedFd dir, const std::string& name, const std::string& attribute, char* out,
                std::size_t size) {
  if (has_at_calls.load(std::memory_order_relaxed)) {
    XattrArgs args{.value = reinterpret_cast<std::uintptr_t>(out),
                   .size = static_cast<std::uint32_t>(size),
                   .flags = 0};
    const long n = ::syscall(kGetXattrAt, dir.get(), name.c_str(), AT_SYMLINK_NOFOLLOW,
                             attribute.c_str(), &args, sizeof args);
    if (n >= 0 || errno != ENOSYS) return n;
    has_at_calls.store(false, std::memory_order_relaxed);
  }
  return ::lgetxattr(path_in(dir, name).c_str(), attribute.c_str(), out, size);
}

std::vector<std::string> split_names(std::string_view block) {
  std::vector<std::string> names;
  while (!block.empty()) {
    const std::size_t end = block.find('\0');
    if (end == std::string_view::npos) break;
    names.emplace_back(block.substr(0, end));
    block.remove_prefix(end + 1);
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> list_xattrs(BorrowedFd dir, const std::string& name) {
  std::array<char, 1024> few;
  ssize_t n = list_raw(dir, name, few.data(), few.size());
  if (n >= 0) return split_names({few.data(), static_cast<std::size_t>(n)});
  if (is_none(errno)) return std::vector<std::string>{};
  if (errno != ERANGE) return fail_os(errno, "list the attributes of {}", printable(name));
  std::string many(kMostXattrBytes, '\0');
  n = list_raw(dir, name, many.data(), many.size());
  if (n < 0) return fail_os(errno, "list the attributes of {}", printable(name));
  return split_names(std::string_view(many).substr(0, static_cast<std::size_t>(n)));
}

Result<std::optional<std::string>> find_xattr(BorrowedFd dir, const std::string& name,
                                              const std::string& attribute) {
  std::string value(256, '\0');
  ssize_t n = get_raw(dir, name, attribute, value.data(), value.size());
  if (n < 0 && errno == ERANGE) {
    value.resize(kMostXattrBytes);
    n = get_raw(dir, name, attribute, value.data(), value.size());
  }
  if (n < 0 && is_none(errno)) return std::optional<std::string>();
  if (n < 0) return fail_os(errno, "read {} of {}", printable(attribute), printable(name));
  value.resize(static_cast<std::size_t>(n));
  return std::optional<std::string>(std::move(value));
}

Result<void> set_xattr(BorrowedFd fd, const std::string& attribute, const std::string& value) {
  const std::string path = descriptor_path(fd);
  if (::setxattr(path.c_str(), attribute.c_str(), value.data(), value.size(), 0) != 0) {
    return fail_os(errno, "set {}", printable(attribute));
  }
  return {};
}

Result<void> remove_xattr(BorrowedFd fd, const std::string& attribute) {
  if (::removexattr(descriptor_path(fd).c_str(), attribute.c_str()) != 0 && errno != ENODATA) {
    return fail_os(errno, "remove {}", printable(attribute));
  }
  return {};
}

}  // namespace glovebox::workspace
