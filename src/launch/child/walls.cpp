#include "launch/child/context.h"
#include "launch/child/read_back.h"
#include "launch/child/sys.h"

#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>

namespace glovebox::launch {
namespace {

// struct landlock_ruleset_attr as of ABI 6; older kernels take a shorter prefix.
struct RulesetAttributes {
  std::uint64_t files;
  std::uint64_t net;
  std::uint64_t scopes;
};

constexpr std::size_t prefix_size(const RulesetAttributes& attributes) noexcept {
  if (attributes.scopes != 0) return sizeof(RulesetAttributes);
  if (attributes.net != 0) return 2 * sizeof(std::uint64_t);
  return sizeof(std::uint64_t);
}

}  // namespace

bool landlock_begin(ChildContext& context, std::uint64_t files, std::uint64_t rest) noexcept {
  const RulesetAttributes attributes{files, rest & 0xffffffffU, rest >> 32U};
  context.ruleset_fd = static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, &attributes, prefix_size(attributes), 0));
  return context.ruleset_fd >= 0;
}

bool landlock_allow(const ChildContext& context, const char* path, std::uint64_t rights) noexcept {
  const int place = ::openat(AT_FDCWD, path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
  if (place < 0) return false;
  const landlock_path_beneath_attr rule{rights, place};
  const bool done = ::syscall(SYS_landlock_add_rule, context.ruleset_fd, LANDLOCK_RULE_PATH_BENEATH,
                              &rule, 0) == 0;
  sys::close_quietly(place);
  return done;
}

// Afterwards something is tried that only Landlock refuses: a directory in the top of the private
// tmpfs, where this process has made some before. No rule covers that place (kPrivateTrees are
// below it), and no path of the box leads there.
bool landlock_enforce(ChildContext& context) noexcept {
  const bool done = ::syscall(SYS_landlock_restrict_self, context.ruleset_fd, 0) == 0;
  sys::close_quietly(context.ruleset_fd);
  context.ruleset_fd = -1;
  if (!done) return false;
  const bool refused = ::mkdirat(context.scratch_fd, "forbidden", 0) == -1 && errno == EACCES;
  return refused || not_in_force();
}

// A call that has been handed over waits on until it is answered, or its process is killed: a
// signal does not start it again.
bool install_filter(ChildContext& context, std::uint64_t with_listener) noexcept {
  const sock_fprog program{static_cast<unsigned short>(context.filter.size()),
                           const_cast<sock_filter*>(context.filter.data())};
  const unsigned long flags =
      with_listener != 0 ? SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
                         : 0;
  const long result = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  if (with_listener != 0) context.listener_fd = static_cast<int>(result);
  return result >= 0;
}

// The terminal comes from the box's own devpts, so its name exists inside; the host's terminal is
// never handed in.
bool open_terminal(ChildContext& context, std::uint64_t rows, std::uint64_t columns) noexcept {
  context.terminal_main =
      ::openat(AT_FDCWD, "/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW);
  if (context.terminal_main < 0) return false;
  int unlocked = 0;
  if (::ioctl(context.terminal_main, TIOCSPTLCK, &unlocked) != 0) return false;
  context.terminal_fd = ::ioctl(context.terminal_main, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (context.terminal_fd < 0) return false;
  winsize size{};
  size.ws_row = static_cast<unsigned short>(rows);
  size.ws_col = static_cast<unsigned short>(columns);
  return ::ioctl(context.terminal_fd, TIOCSWINSZ, &size) == 0;
}

}  // namespace glovebox::launch
