#include "doctor/kernel_calls.h"
#include "doctor/probe_trials.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/kvm.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::host::probe {
namespace {

// struct landlock_ruleset_attr as of ABI 6; older kernels take a shorter prefix.
struct Ruleset {
  std::uint64_t files = 0;
  std::uint64_t net = 0;
  std::uint64_t scopes = 0;
};

constexpr int kAbiWithTcp = 4;
constexpr int kAbiWithScopes = 6;

// Everything that a kernel of this ABI can refuse, as a box asks for it.
Ruleset best_ruleset(long abi) {
  Ruleset rules;
  rules.files = (1U << 13) - 1;
  if (abi >= 2) rules.files |= 1U << 13;  // moving between directories
  if (abi >= 3) rules.files |= 1U << 14;  // truncating
  if (abi >= 5) rules.files |= 1U << 15;  // ioctl on devices
  if (abi >= kAbiWithTcp) rules.net = 3;
  if (abi >= kAbiWithScopes) rules.scopes = 3;
  return rules;
}

std::size_t prefix_size(const Ruleset& rules) {
  if (rules.scopes != 0) return sizeof(Ruleset);
  return rules.net != 0 ? 2 * sizeof(std::uint64_t) : sizeof(std::uint64_t);
}

UniqueFd open_root() { return UniqueFd(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }

bool can_bind_tcp() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return !fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0 ||
         errno != EACCES;
}

bool no_new_privileges() { return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0; }

}  // namespace

Reply try_keyring(const Stage& /*stage*/) {
  constexpr int kJoinSessionKeyring = 1;  // KEYCTL_JOIN_SESSION_KEYRING
  if (::syscall(SYS_keyctl, kJoinSessionKeyring, "_glovebox") >= 0) {
    return seen("a session keyring of the launcher's own");
  }
  if (errno == ENOSYS) return seen("this kernel has no keyrings to hide");
  return failed("join a session keyring");
}

Reply try_capabilities(const Stage& stage) {
  if (const auto problem = take_launcher_identity(stage)) return *problem;
  return in_box(stage, 0, [] {
    if (!drop_capabilities()) return failed("drop capabilities");
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> data{};
    if (::syscall(SYS_capget, &header, data.data()) != 0) return failed("read capabilities");
    for (const auto& half : data) {
      if ((half.effective | half.permitted | half.inheritable) != 0) return wrong("some are left");
    }
    return seen("all sets emptied, securebits locked");
  });
}

Reply try_no_new_privileges(const Stage& /*stage*/) {
  if (!no_new_privileges()) return failed("set no_new_privs");
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) return wrong("it is not set");
  return seen("set");
}

Reply try_landlock(const Stage& /*stage*/) {
  constexpr std::uint32_t kAskVersion = 1;  // LANDLOCK_CREATE_RULESET_VERSION
  const long abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, kAskVersion);
  if (abi < 1) return failed("ask for the ABI");
  const Ruleset rules = best_ruleset(abi);
  const UniqueFd ruleset =
      fd_of(::syscall(SYS_landlock_create_ruleset, &rules, prefix_size(rules), 0));
  if (!ruleset) return failed("create a ruleset");
  const UniqueFd place(::open("/usr", O_PATH | O_CLOEXEC));
  const landlock_path_beneath_attr rule{LANDLOCK_ACCESS_FS_READ_DIR, place.get()};
  if (::syscall(SYS_landlock_add_rule, ruleset.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
    return failed("add a rule");
  }
  if (!open_root()) return failed("open / before the rules");
  if (!no_new_privileges()) return failed("set no_new_privs");
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) return failed("enforce");
  if (open_root() || errno != EACCES) return wrong("what was not allowed was not refused");
  if (!UniqueFd(::open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC)))
    return wrong("too much refused");
  if (rules.net != 0 && can_bind_tcp()) return wrong("TCP was not refused");
  return seen(fmt::format("ABI {}: files{}{}", abi, rules.net != 0 ? ", TCP" : "",
                          rules.scopes != 0 ? ", signals, abstract sockets" : ""));
}

Reply try_seccomp(const Stage& /*stage*/) {
  constexpr std::uint32_t kRefusal = EDOM;  // an errno that the call cannot have by itself
  std::array<sock_filter, 4> filter{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | kRefusal),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog program{filter.size(), filter.data()};
  if (!no_new_privileges()) return failed("set no_new_privs");
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
    return failed("install a filter");
  }
  if (::syscall(SYS_getppid) != -1 || errno != EDOM) return wrong("the filter refused nothing");
  return seen("a filter refused a call");
}

Reply try_close_range(const Stage& /*stage*/) {
  const UniqueFd copy(::fcntl(0, F_DUPFD_CLOEXEC, 100));
  if (!copy) return seen("nothing to close");
  if (::syscall(SYS_close_range, copy.get(), copy.get(), 0) != 0) return failed("close_range");
  if (::fcntl(copy.get(), F_GETFD) >= 0) return wrong("the descriptor is open still");
  return seen("descriptors closed in one call");
}

Reply try_kvm(const Stage& /*stage*/) {
  const UniqueFd kvm(::open("/dev/kvm", O_RDWR | O_CLOEXEC));
  if (!kvm) return failed("open /dev/kvm");
  const int version = ::ioctl(kvm.get(), KVM_GET_API_VERSION, 0);
  if (version < 0) return failed("ask for the API version");
  if (version != KVM_API_VERSION) return wrong(fmt::format("API version {}", version));
  return seen(fmt::format("API version {}; no machine was started", version));
}

}  // namespace glovebox::host::probe
