// Everything that the code between clone and exec may look at, laid out before the clone.
#pragma once

#include "launch/child/helper.h"
#include "plan/flat_plan.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include <linux/filter.h>
#include <linux/securebits.h>

namespace glovebox::launch {

inline constexpr std::size_t kMaxCgroupFds = 8;
inline constexpr std::size_t kMaxLayerFds = plan::kMaxHandedLayers;
// Questions for names are answered on two sockets: datagrams, and connections.
inline constexpr std::size_t kResolverFds = 2;

// Every namespace that a box has of its own, as /proc calls them.
inline constexpr const char* kNamespaceNames[] = {"user", "mnt", "pid",   "ipc",
                                                  "uts",  "net", "cgroup"};
inline constexpr std::size_t kNamespaceCount = sizeof(kNamespaceNames) / sizeof(*kNamespaceNames);

// With these, uid 0 means nothing to execve, and no capability can be made ambient.
inline constexpr int kLockedSecurebits =
    SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED |
    SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

// Makes the network namespace; see network_steps.cpp.
struct NetworkHelper : Helper {
  int loopback = 0;
  int fd = -1;  // the namespace
};

struct ChildContext {
  std::span<const plan::FlatStep> early;
  std::span<const plan::FlatStep> base;
  bool base_is_built = false;  // by a serving launcher
  std::span<const plan::FlatStep> box;
  const char* strings = nullptr;
  std::span<const sock_filter> filter;
  std::span<const plan::FlatTree> trees;
  std::span<int> tree_fds;          // detached trees, by index; -1: opened here, before the base
  std::span<const int> cgroup_fds;  // `tasks` files of the box's cgroups (version 1)
  std::span<const int> leave_fds;   // and of the launcher's own
  std::size_t cgroups_awaited = 0;  // or how many of each the launcher will send
  std::uint32_t outside_uid = 0;    // as the launcher's user namespace counts
  std::uint32_t outside_gid = 0;
  bool network_is_given = false;  // the clone already happened in an empty network namespace
  int resolver_fds[kResolverFds] = {-1, -1};  // with a given network: made with it
  // A box that is begun before its request: after how many steps of the box it waits, and
  // where the rest of its plan comes from. -1: not parked.
  int order_fd = -1;
  std::size_t park_after = 0;
  int launcher_fd = -1;                                    // a pidfd of the launcher
  std::uint64_t outside_namespaces[kNamespaceCount] = {};  // the launcher's, by their inodes
  int status_fd = -1;
  int status_outside = -1;   // the supervisor's end, if the clone inherited it
  int stdio[3] = {0, 1, 2};  // -1: the box's own terminal
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  std::span<const char* const> candidates;
  // Instead of a command: what PID 1 does from here on, over the status socket. Its result is the
  // exit status.
  int (*agent)(int socket) = nullptr;
  std::span<char> title;  // where the launcher's own arguments lie

  // Registers that steps leave for later steps.
  NetworkHelper* network = nullptr;
  Helper* unmount = nullptr;  // without one, steps that could use it do the work themselves
  int awaited_fds[kMaxCgroupFds] = {};
  int root_fd = -1;
  std::uint64_t root_device = 0;  // of the root that the box must have (read_back.h)
  int scratch_fd = -1;
  int ruleset_fd = -1;
  int terminal_fd = -1;    // the side that the command gets
  int terminal_main = -1;  // the side that the supervisor gets
  int listener_fd = -1;    // of the filter, for the broker, which answers the calls that wait
  bool has_resolver = false;
  int layer_fds[kMaxLayerFds] = {};  // of layers in memory, for the supervisor
  std::size_t layer_count = 0;
  bool files_are_closed = false;
};

// The parked box lets go of every descriptor that is not its own.
bool begin_parked(ChildContext& context) noexcept;
// Waits for the rest of the plan. False with errno set; ends with ECONNRESET when no request will
// come.
bool await_order(ChildContext& context) noexcept;

// One step. False with errno set when it failed; an operation that is not known is EINVAL.
bool run_step(ChildContext& context, const plan::FlatStep& step) noexcept;

// The first process of a box, from its first instruction on: runs the steps, starts the command,
// and is the box's init until the command ends. Ends the process.
[[noreturn]] void run_box(ChildContext& context) noexcept;

// The steps, by theme. Each returns false with errno set.
bool mount_root(ChildContext& context) noexcept;
bool attach_host(ChildContext& context, const char* source, const char* target,
                 std::uint64_t attributes) noexcept;
bool seal_root(const ChildContext& context) noexcept;
bool pivot_into_root(ChildContext& context) noexcept;
bool leave_host(ChildContext& context) noexcept;
bool mount_scratch(ChildContext& context, std::uint64_t bytes, std::uint64_t inodes,
                   const char* target) noexcept;
bool attach_scratch(const ChildContext& context, const char* source, const char* target) noexcept;
bool attach_cover(const ChildContext& context, const plan::FlatStep& step) noexcept;
bool mount_overlay(const ChildContext& context, const plan::FlatStep& step) noexcept;
bool hand_out_layer(ChildContext& context, const char* stage) noexcept;
bool mount_proc() noexcept;
bool mount_terminals() noexcept;
bool cover_proc(const ChildContext& context, const char* files, const char* directories) noexcept;
bool attach_tree(const ChildContext& context, std::uint64_t index, std::uint64_t attributes,
                 const char* target) noexcept;
bool pin_directory(const char* target) noexcept;
// Attaches a detached tree on a place that was opened, and looks whether the path leads to it.
bool attach_on(int tree, int place, const char* target) noexcept;

// Opens a tree of the host that must still be the one that was looked up (ESTALE if not), as a
// detached copy with these attributes. `userns` >= 0: idmapped by it. -1 with errno set. Also used
// by the launcher, where it has the rights that the box's first process lacks.
int open_host_tree(const char* path, const plan::FlatTree& tree, std::uint64_t attributes,
                   int userns) noexcept;

bool map_identity(const ChildContext& context, std::uint64_t uid, std::uint64_t gid) noexcept;
bool begin_network(ChildContext& context, std::uint64_t loopback) noexcept;
bool enter_network(ChildContext& context) noexcept;
bool open_resolver(ChildContext& context) noexcept;
bool enter_cgroups(ChildContext& context) noexcept;
bool cap_namespace(const char* count, std::uint64_t limit) noexcept;
bool set_limit(std::uint64_t resource, std::uint64_t value) noexcept;
bool cap_limit(std::uint64_t resource, std::uint64_t value) noexcept;
bool drop_capabilities() noexcept;

bool landlock_begin(ChildContext& context, std::uint64_t files, std::uint64_t rest) noexcept;
bool landlock_allow(const ChildContext& context, const char* path, std::uint64_t rights) noexcept;
bool landlock_enforce(ChildContext& context) noexcept;
bool install_filter(ChildContext& context, std::uint64_t with_listener) noexcept;
bool open_terminal(ChildContext& context, std::uint64_t rows, std::uint64_t columns) noexcept;
bool await_clock(std::uint64_t ns) noexcept;
bool close_files(ChildContext& context) noexcept;

// Writes "inside outside 1" style maps of the calling process; also used by the launcher itself.
bool write_id_maps(std::uint64_t inside_uid, std::uint64_t outside_uid, std::uint64_t inside_gid,
                   std::uint64_t outside_gid) noexcept;
// Brings the loopback device of the current network namespace up.
bool raise_loopback() noexcept;
// Opens the resolver's sockets in the current network namespace.
bool open_resolver_sockets(int (&fds)[kResolverFds]) noexcept;

}  // namespace glovebox::launch
