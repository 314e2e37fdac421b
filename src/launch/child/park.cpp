// A box that is begun before its request (a parked box).
//
// It has done the first of its steps, which give it nothing: no tree of the host, no network, no
// program. While it waits it has no descriptor but its own, and no code of a caller runs in it. The
// order is the plan of the request that gets it, checked by the launcher, and what that plan hands
// in.

#include "launch/child/context.h"
#include "launch/child/init_message.h"
#include "launch/child/sys.h"

#include <sys/socket.h>

namespace glovebox::launch {
namespace {

constexpr std::size_t kMaxFiles = kHandedFiles + kMaxHandedTrees;
constexpr std::size_t kMaxOwn = 2 * kMaxCgroupFds + kResolverFds + 3;

// Used by one process once: the launcher itself never touches it.
struct Handed {
  alignas(8) char bytes[sizeof(HandOut) + kMaxHandedBytes];
  int fds[kMaxFiles];
  char* texts[kMaxHandedTexts];
};
Handed handed;  // zero pages until it is written

bool fail_with(int os_errno) noexcept {
  errno = os_errno;
  return false;
}

void insert_sorted(int (&list)[kMaxOwn], std::size_t& count, int fd) noexcept {
  if (fd < 3) return;
  std::size_t at = count++;
  for (; at > 0 && list[at - 1] > fd; --at) list[at] = list[at - 1];
  list[at] = fd;
}

bool close_between(const int (&kept)[kMaxOwn], std::size_t count) noexcept {
  unsigned from = 3;
  for (std::size_t i = 0; i < count; ++i) {
    const auto fd = static_cast<unsigned>(kept[i]);
    if (fd > from && !sys::close_range(from, fd - 1)) return false;
    from = fd + 1;
  }
  return sys::close_range(from, ~0U);
}

// The texts of one list as a vector of pointers with a null at its end.
char** point_at(const plan::FlatSection& where, std::size_t& used) noexcept {
  const char* plan = handed.bytes + sizeof(HandOut);
  const auto* header = reinterpret_cast<const plan::FlatHeader*>(plan);
  const auto* offsets = reinterpret_cast<const std::uint32_t*>(plan + where.offset);
  char** list = handed.texts + used;
  for (std::uint32_t i = 0; i < where.count; ++i) {
    handed.texts[used++] = handed.bytes + sizeof(HandOut) + header->strings.offset + offsets[i];
  }
  handed.texts[used++] = nullptr;
  return list;
}

template <class T>
std::span<const T> section(const plan::FlatSection& where) noexcept {
  return {reinterpret_cast<const T*>(handed.bytes + sizeof(HandOut) + where.offset), where.count};
}

// The launcher has checked the plan, and that it is of this box's shape.
bool take_plan(ChildContext& context) noexcept {
  const auto& header = *reinterpret_cast<const plan::FlatHeader*>(handed.bytes + sizeof(HandOut));
  const std::size_t texts =
      std::size_t{header.argv.count} + header.envp.count + header.candidates.count + 3;
  if (texts > kMaxHandedTexts || header.box.count < context.park_after) return fail_with(EPROTO);
  context.early = section<plan::FlatStep>(header.early);
  context.base = section<plan::FlatStep>(header.base);
  context.box = section<plan::FlatStep>(header.box);
  context.filter = section<sock_filter>(header.filter);
  context.trees = section<plan::FlatTree>(header.trees);
  context.strings = handed.bytes + sizeof(HandOut) + header.strings.offset;
  std::size_t used = 0;
  context.argv = point_at(header.argv, used);
  context.envp = point_at(header.envp, used);
  context.candidates = {point_at(header.candidates, used), header.candidates.count};
  return true;
}

bool receive_order(int socket, std::size_t& files) noexcept {
  iovec part{handed.bytes, sizeof(handed.bytes)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFiles)] = {};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  packet.msg_control = control;
  packet.msg_controllen = sizeof(control);
  const ssize_t size = ::recvmsg(socket, &packet, MSG_CMSG_CLOEXEC);
  if (size == 0) return fail_with(ECONNRESET);
  if (size < 0) return false;
  const auto& head = *reinterpret_cast<const HandOut*>(handed.bytes);
  const cmsghdr* header = CMSG_FIRSTHDR(&packet);
  files = kHandedFiles + head.trees;
  const std::size_t bytes = files * sizeof(int);
  if (static_cast<std::size_t>(size) < sizeof(HandOut) + sizeof(plan::FlatHeader) ||
      head.magic != kHandOutMagic || head.trees > kMaxHandedTrees || header == nullptr ||
      header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(bytes) ||
      (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return fail_with(EPROTO);
  }
  __builtin_memcpy(handed.fds, CMSG_DATA(header), bytes);
  return true;
}

// For a box that has closed its files already: the status socket and the standard streams take the
// places of what stood in for them.
bool put_in_place(ChildContext& context) noexcept {
  for (int i = 0; i < 3; ++i) {
    if (::syscall(SYS_dup3, context.stdio[i], i, 0) != i) return false;
    sys::close_quietly(context.stdio[i]);
    context.stdio[i] = i;
  }
  if (::syscall(SYS_dup3, context.status_fd, context.order_fd, O_CLOEXEC) != context.order_fd) {
    return false;
  }
  sys::close_quietly(context.status_fd);
  context.status_fd = context.order_fd;
  return true;
}

}  // namespace

bool begin_parked(ChildContext& context) noexcept {
  for (int i = 0; i < 3; ++i) {
    if (::syscall(SYS_dup3, context.stdio[i], i, 0) != i) return false;
    context.stdio[i] = i;
  }
  int kept[kMaxOwn];
  std::size_t count = 0;
  insert_sorted(kept, count, context.order_fd);
  insert_sorted(kept, count, context.launcher_fd);
  for (const int fd : context.cgroup_fds) insert_sorted(kept, count, fd);
  for (const int fd : context.leave_fds) insert_sorted(kept, count, fd);
  for (const int fd : context.resolver_fds) insert_sorted(kept, count, fd);
  return close_between(kept, count);
}

bool await_order(ChildContext& context) noexcept {
  // Until now the order's socket stood in for the status socket, also when files were closed.
  context.order_fd = context.status_fd;
  if (::write(context.order_fd, &kParkedWord, sizeof(kParkedWord)) != sizeof(kParkedWord)) {
    return false;
  }
  std::size_t files = 0;
  if (!receive_order(context.order_fd, files) || !take_plan(context)) return false;
  context.status_fd = handed.fds[0];
  for (int i = 0; i < 3; ++i) context.stdio[i] = handed.fds[i + 1];
  context.tree_fds = {handed.fds + kHandedFiles, files - kHandedFiles};
  if (context.files_are_closed) return put_in_place(context);
  sys::close_quietly(context.order_fd);
  return true;
}

}  // namespace glovebox::launch
