// Namespaces that the launcher itself enters and makes. A call that was answered without being made
// (child/read_back.h) is an error here too: the next mount would be one of the host's.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "launch/child/context.h"

#include <array>
#include <cstdint>
#include <string_view>

#include <linux/sched.h>

namespace glovebox::launch {

// A kind of namespace, by its name in /proc and its flag for the kernel.
struct NamespaceKind {
  const char* name;
  int flag;
};
inline constexpr NamespaceKind kMountNamespace{"mnt", CLONE_NEWNS};
inline constexpr NamespaceKind kNetworkNamespace{"net", CLONE_NEWNET};
inline constexpr NamespaceKind kUserNamespace{"user", CLONE_NEWUSER};

// The error of an act that was answered without being done.
tl::unexpected<Error> fail_not_in_force(std::string_view act);

// Which namespaces this process is in, in the order of kNamespaceNames.
Result<std::array<std::uint64_t, kNamespaceCount>> own_namespaces();

// Leaves the one that this process is in for a new one.
Result<void> make_namespace(NamespaceKind kind);
Result<void> enter_namespace(const UniqueFd& fd, NamespaceKind kind);

// clone3(2) for a child with memory of its own. The child's pid, 0 in the child; -1 with errno set,
// kNotInForce when there is no child although the call was answered.
long clone_child(clone_args args);

}  // namespace glovebox::launch
