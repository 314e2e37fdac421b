// System calls that a box has no business with, each made with arguments that would do something.
#include "probe.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

int try_io_uring(Args) {
  io_uring_params parameters{};
  return met(syscall(SYS_io_uring_setup, 4, &parameters));
}
// 0 as well when the kernel looked at the arguments: then no filter stood before it.
int met_before_arguments(long result) {
  const int error = met(result);
  if (error == 0 || error == EPERM || error == ENOSYS || error == EACCES) return error;
  say("the call was looked at: %s", strerrorname_np(error));
  return 0;
}

int try_io_uring_enter(Args) {
  return met_before_arguments(syscall(SYS_io_uring_enter, -1, 1, 0, 0, nullptr, 0));
}
int try_io_uring_register(Args) {
  return met_before_arguments(syscall(SYS_io_uring_register, -1, 0, nullptr, 0));
}

int try_keyctl(Args) {
  return met(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1));
}
int try_add_key(Args args) {
  return met(syscall(SYS_add_key, "user", text_or(args, 0, "glovebox"), "secret", 6,
                     KEY_SPEC_SESSION_KEYRING));
}
int try_request_key(Args args) {
  return met(syscall(SYS_request_key, "user", text_or(args, 0, "glovebox"), nullptr, 0));
}

int try_bpf(Args) {
  bpf_attr attributes{};
  attributes.map_type = BPF_MAP_TYPE_ARRAY;
  attributes.key_size = 4;
  attributes.value_size = 4;
  attributes.max_entries = 1;
  return met(syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
}

int try_userfaultfd(Args) { return met(syscall(SYS_userfaultfd, O_CLOEXEC | 1)); }

int try_perf(Args) {
  perf_event_attr attributes{};
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.size = sizeof attributes;
  attributes.config = PERF_COUNT_SW_TASK_CLOCK;
  attributes.exclude_kernel = 1;
  return met(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
}

int try_personality(Args args) {
  return met(personality(static_cast<unsigned long>(number(args, 0))));
}

// ioctl(2) with a full 64-bit command, as a filter sees it; the kernel looks at the low half only.
int raw_ioctl(unsigned long command, int fd, void* argument) {
  return met(syscall(SYS_ioctl, fd, command, argument));
}

unsigned long high_bits(Args args) {
  const bool wanted = std::strcmp(text_or(args, 0, "plain"), "high") == 0;
  return wanted ? 1UL << 32 : 0;
}

int try_tiocsti(Args args) {
  char key = '!';
  const int fd = args.size() > 1 ? static_cast<int>(number(args, 1)) : 0;
  return raw_ioctl(TIOCSTI | high_bits(args), fd, &key);
}

int try_tioclinux(Args args) {
  char subcode = 3;  // paste the selection
  return raw_ioctl(TIOCLINUX | high_bits(args), 0, &subcode);
}

int try_open_by_handle(Args) {
  struct {
    file_handle head;
    char bytes[128];
  } handle{};
  handle.head.handle_bytes = sizeof handle.bytes;
  int mount = 0;
  const int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (name_to_handle_at(AT_FDCWD, "/etc/passwd", &handle.head, &mount, 0) != 0) return errno;
  return met(syscall(SYS_open_by_handle_at, root, &handle.head, O_RDONLY));
}

int try_seccomp_listener(Args) {
  // Lets everything through, and hands out a listener.
  sock_filter allow{0x06 /*return*/, 0, 0, 0x7fff0000U};
  const sock_fprog program{1, &allow};
  return met(syscall(SYS_seccomp, 1 /*SET_MODE_FILTER*/, 8 /*NEW_LISTENER*/, &program));
}

// SYSCALL NR [A0...A5], for calls that need no memory of their own.
int try_syscall(Args args) {
  std::array<long, 6> values{};
  for (std::size_t i = 0; i + 1 < args.size() && i < values.size(); ++i) {
    values[i] = number(args, i + 1);
  }
  return met(
      syscall(number(args, 0), values[0], values[1], values[2], values[3], values[4], values[5]));
}

struct NamedCall {
  const char* name;
  long number;
  long first = 0;
};

constexpr long kSetMempolicyHomeNode = 450, kMapShadowStack = 453;  // newer than these headers

// Calls that no ordinary program makes. The other arguments are zero: a refusal by filter comes
// before the kernel looks at them, so EPERM and ENOSYS are the only honest answers in a box. None
// makes or removes anything where they pass: with zeros semctl and msgctl would remove what has the
// id 0, so they name no object.
constexpr NamedCall kForbidden[] = {
    {"acct", SYS_acct},
    {"delete_module", SYS_delete_module},
    {"finit_module", SYS_finit_module},
    {"init_module", SYS_init_module},
    {"kexec_load", SYS_kexec_load},
    {"kexec_file_load", SYS_kexec_file_load},
    {"reboot", SYS_reboot},
    {"swapon", SYS_swapon},
    {"swapoff", SYS_swapoff},
    {"mount", SYS_mount},
    {"umount2", SYS_umount2},
    {"pivot_root", SYS_pivot_root},
    {"fsopen", SYS_fsopen},
    {"fsconfig", SYS_fsconfig},
    {"fsmount", SYS_fsmount},
    {"fspick", SYS_fspick},
    {"open_tree", SYS_open_tree},
    {"move_mount", SYS_move_mount},
    {"mount_setattr", SYS_mount_setattr},
    {"setns", SYS_setns},
    {"ptrace", SYS_ptrace},
    {"process_vm_readv", SYS_process_vm_readv},
    {"process_vm_writev", SYS_process_vm_writev},
    {"pidfd_getfd", SYS_pidfd_getfd},
    {"kcmp", SYS_kcmp},
    {"io_uring_setup", SYS_io_uring_setup},
    {"io_uring_enter", SYS_io_uring_enter},
    {"io_uring_register", SYS_io_uring_register},
    {"bpf", SYS_bpf},
    {"perf_event_open", SYS_perf_event_open},
    {"userfaultfd", SYS_userfaultfd},
    {"keyctl", SYS_keyctl},
    {"add_key", SYS_add_key},
    {"request_key", SYS_request_key},
    {"open_by_handle_at", SYS_open_by_handle_at},
    {"quotactl", SYS_quotactl},
    {"settimeofday", SYS_settimeofday},
    {"clock_settime", SYS_clock_settime},
    {"clock_adjtime", SYS_clock_adjtime},
    {"adjtimex", SYS_adjtimex},
    {"iopl", SYS_iopl},
    {"ioperm", SYS_ioperm},
    {"syslog", SYS_syslog},
    {"lookup_dcookie", SYS_lookup_dcookie},
    {"vhangup", SYS_vhangup},
    {"fanotify_init", SYS_fanotify_init},
    {"migrate_pages", SYS_migrate_pages},
    {"nfsservctl", SYS_nfsservctl},
    {"sethostname", SYS_sethostname},
    {"setdomainname", SYS_setdomainname},
    {"chroot", SYS_chroot},
    {"semctl", SYS_semctl, -1},
    {"msgctl", SYS_msgctl, -1},
    {"mq_unlink", SYS_mq_unlink},
    {"tee", SYS_tee},
    {"vmsplice", SYS_vmsplice, -1},
    {"mbind", SYS_mbind},
    {"set_mempolicy", SYS_set_mempolicy},
    {"set_mempolicy_home_node", kSetMempolicyHomeNode},
    {"move_pages", SYS_move_pages},
    {"map_shadow_stack", kMapShadowStack},
    {"sched_setattr", SYS_sched_setattr},
    {"sync", SYS_sync},
    {"syncfs", SYS_syncfs},
};

// Makes every call of the list; prints the ones that got past the filter.
int sweep_forbidden(Args) {
  int passed = 0;
  for (const NamedCall& call : kForbidden) {
    const int error = met(syscall(call.number, call.first, 0, 0, 0, 0, 0));
    if (error == EPERM || error == ENOSYS) continue;
    say("passed %s: %s", call.name, error == 0 ? "success" : strerrorname_np(error));
    ++passed;
  }
  say("%zu calls tried, %d passed", std::size(kForbidden), passed);
  return passed == 0 ? EPERM : 0;
}

constexpr Probe kProbes[] = {
    {"io_uring", try_io_uring, "sets up a ring"},
    {"io_uring_enter", try_io_uring_enter, "enters a ring"},
    {"io_uring_register", try_io_uring_register, "registers with a ring"},
    {"keyctl", try_keyctl, "gets its session keyring"},
    {"add_key", try_add_key, "[NAME]: adds a key"},
    {"request_key", try_request_key, "[NAME]: asks for a key"},
    {"bpf", try_bpf, "makes a BPF map"},
    {"userfaultfd", try_userfaultfd, "opens a userfaultfd for user faults"},
    {"perf", try_perf, "opens a performance counter"},
    {"personality", try_personality, "VALUE: changes the execution domain"},
    {"ioctl_tiocsti", try_tiocsti, "[high [FD]]: pushes a key into the terminal"},
    {"ioctl_tioclinux", try_tioclinux, "[high]: pastes into the console"},
    {"open_by_handle", try_open_by_handle, "opens a file by handle"},
    {"seccomp_listener", try_seccomp_listener, "asks for a seccomp notification descriptor"},
    {"syscall", try_syscall, "NR [A0...A5]: makes one raw system call"},
    {"forbidden_sweep", sweep_forbidden, "makes every call that a box must not make"},
};

}  // namespace

std::span<const Probe> syscall_probes() { return kProbes; }

}  // namespace glovebox::probe
