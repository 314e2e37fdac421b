#include "launch/namespaces.h"

#include "launch/child/read_back.h"

#include <cerrno>

#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::launch {

tl::unexpected<Error> fail_not_in_force(std::string_view act) {
  return fail(Code::Os,
              "{}: the call was answered, but nothing was done: something around glovebox (a "
              "filter, a tracer) answers in the kernel's place",
              act);
}

Result<std::array<std::uint64_t, kNamespaceCount>> own_namespaces() {
  std::array<std::uint64_t, kNamespaceCount> inodes{};
  for (std::size_t i = 0; i < kNamespaceCount; ++i) {
    inodes.at(i) = namespace_inode(kNamespaceNames[i]);
    if (inodes.at(i) == 0) return fail_os(errno, "look at /proc/self/ns/{}", kNamespaceNames[i]);
  }
  return inodes;
}

Result<void> make_namespace(NamespaceKind kind) {
  const std::uint64_t before = namespace_inode(kind.name);
  if (::unshare(kind.flag) != 0) {
    return fail_os(errno,
                   "make a {} namespace (run 'glovebox doctor' to see what this host allows)",
                   kind.name);
  }
  const std::uint64_t now = namespace_inode(kind.name);
  if (now == 0 || now == before)
    return fail_not_in_force(fmt::format("make a {} namespace", kind.name));
  return {};
}

Result<void> enter_namespace(const UniqueFd& fd, NamespaceKind kind) {
  if (::setns(fd.get(), kind.flag) != 0) return fail_os(errno, "enter a {} namespace", kind.name);
  struct stat wanted{};
  if (::fstat(fd.get(), &wanted) != 0) return fail_os(errno, "look at a {} namespace", kind.name);
  if (namespace_inode(kind.name) != wanted.st_ino)
    return fail_not_in_force(fmt::format("enter a {} namespace", kind.name));
  return {};
}

long clone_child(clone_args args) {
  // The kernel writes it in the child alone, before that runs.
  volatile pid_t child = 0;
  args.flags |= CLONE_CHILD_SETTID;
  args.child_tid = reinterpret_cast<std::uint64_t>(&child);
  const long pid = ::syscall(SYS_clone3, &args, sizeof(args));
  if (pid != 0 || child != 0) return pid;
  errno = kNotInForce;
  return -1;
}

}  // namespace glovebox::launch
