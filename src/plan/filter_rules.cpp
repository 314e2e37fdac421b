#include "plan/filter_rules.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace glovebox::plan {
namespace {

struct SyscallNumber {
  std::string_view name;
  int x86_64;
  int aarch64;
};
constexpr int kNone = -1;  // the architecture has no such call

constexpr SyscallNumber kAllowed[] = {
    // Files: open, read, write, move data between them.
    {"close", 3, 57},
    {"close_range", 436, 436},
    {"read", 0, 63},
    {"write", 1, 64},
    {"readv", 19, 65},
    {"writev", 20, 66},
    {"pread64", 17, 67},
    {"pwrite64", 18, 68},
    {"preadv", 295, 69},
    {"pwritev", 296, 70},
    {"preadv2", 327, 286},
    {"pwritev2", 328, 287},
    {"lseek", 8, 62},
    {"sendfile", 40, 71},
    {"copy_file_range", 326, 285},
    {"splice", 275, 76},
    {"tee", 276, 77},
    {"vmsplice", 278, 75},
    {"truncate", 76, 45},
    {"ftruncate", 77, 46},
    {"fallocate", 285, 47},
    {"fadvise64", 221, 223},
    {"readahead", 187, 213},
    {"fsync", 74, 82},
    {"fdatasync", 75, 83},
    {"sync", 162, 81},
    {"syncfs", 306, 267},
    {"sync_file_range", 277, 84},
    {"flock", 73, 32},
    {"fcntl", 72, 25},
    {"dup", 32, 23},
    {"dup2", 33, kNone},
    {"dup3", 292, 24},
    {"pipe", 22, kNone},
    {"pipe2", 293, 59},
    // Files: names, directories and what is known of them.
    {"stat", 4, kNone},
    {"fstat", 5, 80},
    {"lstat", 6, kNone},
    {"newfstatat", 262, 79},
    {"statx", 332, 291},
    {"statfs", 137, 43},
    {"fstatfs", 138, 44},
    {"access", 21, kNone},
    {"faccessat", 269, 48},
    {"faccessat2", 439, 439},
    {"getdents", 78, kNone},
    {"getdents64", 217, 61},
    {"getcwd", 79, 17},
    {"chdir", 80, 49},
    {"fchdir", 81, 50},
    {"mkdir", 83, kNone},
    {"mkdirat", 258, 34},
    {"rmdir", 84, kNone},
    {"rename", 82, kNone},
    {"renameat", 264, 38},
    {"link", 86, kNone},
    {"linkat", 265, 37},
    {"unlink", 87, kNone},
    {"unlinkat", 263, 35},
    {"symlink", 88, kNone},
    {"symlinkat", 266, 36},
    {"readlink", 89, kNone},
    {"readlinkat", 267, 78},
    {"chown", 92, kNone},
    {"fchown", 93, 55},
    {"lchown", 94, kNone},
    {"fchownat", 260, 54},
    {"umask", 95, 166},
    {"utime", 132, kNone},
    {"utimes", 235, kNone},
    {"utimensat", 280, 88},
    {"futimesat", 261, kNone},
    {"setxattr", 188, 5},
    {"lsetxattr", 189, 6},
    {"fsetxattr", 190, 7},
    {"setxattrat", 463, 463},
    {"getxattr", 191, 8},
    {"lgetxattr", 192, 9},
    {"fgetxattr", 193, 10},
    {"getxattrat", 464, 464},
    {"listxattr", 194, 11},
    {"llistxattr", 195, 12},
    {"flistxattr", 196, 13},
    {"listxattrat", 465, 465},
    {"removexattr", 197, 14},
    {"lremovexattr", 198, 15},
    {"fremovexattr", 199, 16},
    {"removexattrat", 466, 466},
    {"inotify_init", 253, kNone},
    {"inotify_init1", 294, 26},
    {"inotify_add_watch", 254, 27},
    {"inotify_rm_watch", 255, 28},
    // Memory. Programs that write code at run time need mprotect and memfd_create; NUMA policy is
    // the
    // caller's own.
    {"brk", 12, 214},
    {"mmap", 9, 222},
    {"munmap", 11, 215},
    {"mprotect", 10, 226},
    {"mremap", 25, 216},
    {"msync", 26, 227},
    {"mincore", 27, 232},
    {"madvise", 28, 233},
    {"mlock", 149, 228},
    {"mlock2", 325, 284},
    {"munlock", 150, 229},
    {"mlockall", 151, 230},
    {"munlockall", 152, 231},
    {"mseal", 462, 462},
    {"memfd_create", 319, 279},
    {"pkey_alloc", 330, 289},
    {"pkey_free", 331, 290},
    {"pkey_mprotect", 329, 288},
    {"map_shadow_stack", 453, 453},
    {"mbind", 237, 235},
    {"get_mempolicy", 239, 236},
    {"set_mempolicy", 238, 237},
    {"set_mempolicy_home_node", 450, 450},
    {"membarrier", 324, 283},
    // Processes and threads. The pid namespace bounds whom a signal or a pidfd can reach.
    {"fork", 57, kNone},
    {"vfork", 58, kNone},
    {"execve", 59, 221},
    {"execveat", 322, 281},
    {"exit", 60, 93},
    {"exit_group", 231, 94},
    {"wait4", 61, 260},
    {"waitid", 247, 95},
    {"getpid", 39, 172},
    {"getppid", 110, 173},
    {"gettid", 186, 178},
    {"getpgid", 121, 155},
    {"getpgrp", 111, kNone},
    {"getsid", 124, 156},
    {"setpgid", 109, 154},
    {"setsid", 112, 157},
    {"set_tid_address", 218, 96},
    {"set_robust_list", 273, 99},
    {"get_robust_list", 274, 100},
    {"rseq", 334, 293},
    {"rseq_slice_yield", 471, 471},
    {"futex", 202, 98},
    {"futex_waitv", 449, 449},
    {"futex_wait", 455, 455},
    {"futex_wake", 454, 454},
    {"futex_requeue", 456, 456},
    {"arch_prctl", 158, kNone},
    {"restart_syscall", 219, 128},
    {"kill", 62, 129},
    {"tkill", 200, 130},
    {"tgkill", 234, 131},
    {"pidfd_open", 434, 434},
    {"pidfd_send_signal", 424, 424},
    {"getpriority", 140, 141},
    {"setpriority", 141, 140},
    {"ioprio_get", 252, 31},
    {"ioprio_set", 251, 30},
    {"getrlimit", 97, 163},
    {"setrlimit", 160, 164},
    {"prlimit64", 302, 261},
    {"getrusage", 98, 165},
    {"times", 100, 153},
    {"sysinfo", 99, 179},
    {"uname", 63, 160},
    {"getcpu", 309, 168},
    {"sched_yield", 24, 124},
    {"sched_getaffinity", 204, 123},
    {"sched_setaffinity", 203, 122},
    {"sched_getparam", 143, 121},
    {"sched_setparam", 142, 118},
    {"sched_getscheduler", 145, 120},
    {"sched_setscheduler", 144, 119},
    {"sched_getattr", 315, 275},
    {"sched_setattr", 314, 274},
    {"sched_get_priority_max", 146, 125},
    {"sched_get_priority_min", 147, 126},
    {"sched_rr_get_interval", 148, 127},
    // Identity. Nothing is held that these could raise, and no_new_privs keeps it so. setgroups is
    // refused below.
    {"getuid", 102, 174},
    {"geteuid", 107, 175},
    {"getresuid", 118, 148},
    {"setuid", 105, 146},
    {"setreuid", 113, 145},
    {"setresuid", 117, 147},
    {"setfsuid", 122, 151},
    {"getgid", 104, 176},
    {"getegid", 108, 177},
    {"getresgid", 120, 150},
    {"setgid", 106, 144},
    {"setregid", 114, 143},
    {"setresgid", 119, 149},
    {"setfsgid", 123, 152},
    {"getgroups", 115, 158},
    {"capget", 125, 90},
    {"capset", 126, 91},
    // A program may shut itself in further.
    {"landlock_create_ruleset", 444, 444},
    {"landlock_add_rule", 445, 445},
    {"landlock_restrict_self", 446, 446},
    // Signals, time and waiting.
    {"rt_sigaction", 13, 134},
    {"rt_sigprocmask", 14, 135},
    {"rt_sigreturn", 15, 139},
    {"rt_sigpending", 127, 136},
    {"rt_sigtimedwait", 128, 137},
    {"rt_sigqueueinfo", 129, 138},
    {"rt_tgsigqueueinfo", 297, 240},
    {"rt_sigsuspend", 130, 133},
    {"sigaltstack", 131, 132},
    {"signalfd", 282, kNone},
    {"signalfd4", 289, 74},
    {"pause", 34, kNone},
    {"time", 201, kNone},
    {"gettimeofday", 96, 169},
    {"clock_gettime", 228, 113},
    {"clock_getres", 229, 114},
    {"clock_nanosleep", 230, 115},
    {"nanosleep", 35, 101},
    {"alarm", 37, kNone},
    {"getitimer", 36, 102},
    {"setitimer", 38, 103},
    {"timer_create", 222, 107},
    {"timer_settime", 223, 110},
    {"timer_gettime", 224, 108},
    {"timer_getoverrun", 225, 109},
    {"timer_delete", 226, 111},
    {"timerfd_create", 283, 85},
    {"timerfd_settime", 286, 86},
    {"timerfd_gettime", 287, 87},
    {"poll", 7, kNone},
    {"ppoll", 271, 73},
    {"select", 23, kNone},
    {"pselect6", 270, 72},
    {"epoll_create", 213, kNone},
    {"epoll_create1", 291, 20},
    {"epoll_ctl", 233, 21},
    {"epoll_wait", 232, kNone},
    {"epoll_pwait", 281, 22},
    {"epoll_pwait2", 441, 441},
    {"eventfd", 284, kNone},
    {"eventfd2", 290, 19},
    {"getrandom", 318, 278},
    // Sockets, once made; which can be made is decided below.
    {"bind", 49, 200},
    {"listen", 50, 201},
    {"accept", 43, 202},
    {"accept4", 288, 242},
    {"connect", 42, 203},
    {"getsockname", 51, 204},
    {"getpeername", 52, 205},
    {"getsockopt", 55, 209},
    {"shutdown", 48, 210},
    {"sendto", 44, 206},
    {"sendmsg", 46, 211},
    {"sendmmsg", 307, 269},
    {"recvfrom", 45, 207},
    {"recvmsg", 47, 212},
    {"recvmmsg", 299, 243},
    // System V and POSIX messages, which the ipc namespace bounds.
    {"shmget", 29, 194},
    {"shmat", 30, 196},
    {"shmdt", 67, 197},
    {"shmctl", 31, 195},
    {"semget", 64, 190},
    {"semop", 65, 193},
    {"semtimedop", 220, 192},
    {"semctl", 66, 191},
    {"msgget", 68, 186},
    {"msgsnd", 69, 189},
    {"msgrcv", 70, 188},
    {"msgctl", 71, 187},
    {"mq_open", 240, 180},
    {"mq_unlink", 241, 181},
    {"mq_timedsend", 242, 182},
    {"mq_timedreceive", 243, 183},
    {"mq_notify", 244, 184},
    {"mq_getsetattr", 245, 185},
};

constexpr SyscallNumber kRefused[] = {
    // Namespaces, roots and mounts: what the box is made of.
    {"setns", 308, 268},
    {"chroot", 161, 51},
    {"pivot_root", 155, 41},
    {"mount", 165, 40},
    {"umount2", 166, 39},
    {"open_tree", 428, 428},
    {"open_tree_attr", 467, 467},
    {"move_mount", 429, 429},
    {"fsopen", 430, 430},
    {"fsconfig", 431, 431},
    {"fsmount", 432, 432},
    {"fspick", 433, 433},
    {"mount_setattr", 442, 442},
    {"listns", 470, 470},
    // Looking into another process or holding what it holds.
    {"ptrace", 101, 117},
    {"process_vm_readv", 310, 270},
    {"process_vm_writev", 311, 271},
    {"process_madvise", 440, 440},
    {"process_mrelease", 448, 448},
    {"pidfd_getfd", 438, 438},
    {"kcmp", 312, 272},
    {"migrate_pages", 256, 238},
    // Programs for the kernel, and large interfaces with a history of holes.
    {"bpf", 321, 280},
    {"perf_event_open", 298, 241},
    {"userfaultfd", 323, 282},
    {"io_uring_setup", 425, 425},
    {"io_uring_enter", 426, 426},
    {"io_uring_register", 427, 427},
    // Kernel keyrings belong to the user outside; no namespace separates them.
    {"add_key", 248, 217},
    {"request_key", 249, 218},
    {"keyctl", 250, 219},
    // Files by handle go around the directories that guard them. A handle has no use without the
    // second half, and programs that ask for one have a fallback.
    {"open_by_handle_at", 304, 265},
    {"name_to_handle_at", 303, 264},
    // Watching and accounting for others.
    {"fanotify_init", 300, 262},
    {"fanotify_mark", 301, 263},
    {"acct", 163, 89},
    {"syslog", 103, 116},
    {"lookup_dcookie", 212, 18},
    {"quotactl", 179, 60},
    {"quotactl_fd", 443, 443},
    // The machine: its clock, its name, its code, its devices.
    {"settimeofday", 164, 170},
    {"clock_settime", 227, 112},
    {"adjtimex", 159, 171},
    {"clock_adjtime", 305, 266},
    {"sethostname", 170, 161},
    {"setdomainname", 171, 162},
    {"reboot", 169, 142},
    {"kexec_load", 246, 104},
    {"kexec_file_load", 320, 294},
    {"init_module", 175, 105},
    {"finit_module", 313, 273},
    {"delete_module", 176, 106},
    {"swapon", 167, 224},
    {"swapoff", 168, 225},
    {"iopl", 172, kNone},
    {"ioperm", 173, kNone},
    {"vhangup", 153, 58},
    // Identity that could be given away, or set from outside.
    {"setgroups", 116, 159},
    {"lsm_set_self_attr", 460, 460},
    // Old entries with no user left. modify_ldt is for 16-bit and 32-bit code and has had holes.
    {"modify_ldt", 154, kNone},
    {"nfsservctl", 180, 42},
    {"uselib", 134, kNone},
    {"ustat", 136, kNone},
    {"sysfs", 139, kNone},
    {"_sysctl", 156, kNone},
    {"create_module", 174, kNone},
    {"get_kernel_syms", 177, kNone},
    {"query_module", 178, kNone},
};

constexpr SyscallNumber kAbsent[] = {
    // The filter cannot read the flags of clone3: they are behind a pointer. C libraries use clone
    // instead when it is absent.
    {"clone3", 435, 435},
    // Nor the mode of a file that openat2 makes. Older kernels do not have it.
    {"openat2", 437, 437},
    // aio-max-nr counts for the whole host, so one box could use it up for all.
    {"io_setup", 206, 0},
    {"io_destroy", 207, 1},
    {"io_submit", 209, 2},
    {"io_cancel", 210, 3},
    {"io_getevents", 208, 4},
    {"io_pgetevents", 333, 292},
    // Pages taken from the kernel's own map, and a view of what others have in the page cache.
    {"memfd_secret", 447, 447},
    {"cachestat", 451, 451},
    // Long deprecated and only emulated; mmap does the same.
    {"remap_file_pages", 216, 234},
    // Young calls that tell of mounts, attributes and security modules; /proc and ioctl remain.
    {"statmount", 457, 457},
    {"listmount", 458, 458},
    {"file_getattr", 468, 468},
    {"file_setattr", 469, 469},
    {"lsm_get_self_attr", 459, 459},
    {"lsm_list_modules", 461, 461},
    // For the kernel's own trampolines, which it exempts from filters.
    {"uprobe", 336, kNone},
    {"uretprobe", 335, kNone},
    // Numbers without a system call behind them on x86_64.
    {"set_thread_area", 205, kNone},
    {"get_thread_area", 211, kNone},
    {"epoll_ctl_old", 214, kNone},
    {"epoll_wait_old", 215, kNone},
    {"getpmsg", 181, kNone},
    {"putpmsg", 182, kNone},
    {"afs_syscall", 183, kNone},
    {"tuxcall", 184, kNone},
    {"security", 185, kNone},
    {"vserver", 236, kNone},
};

ArgumentTest one_of(std::uint8_t argument, std::vector<std::uint64_t> values,
                    std::uint64_t mask = kLow32) {
  return {argument, mask, ArgumentTest::Relation::OneOf, std::move(values)};
}

ArgumentTest has_any(std::uint8_t argument, std::uint64_t flags) {
  return {argument, flags, ArgumentTest::Relation::NoneOf, {0}};
}

class RuleTable {
 public:
  explicit RuleTable(Architecture architecture) {
    rules_.architecture = architecture;
    rules_.unknown = Verdict::refuse(ENOSYS);
    rules_.syscalls.reserve(512);
  }

  void add(SyscallNumber syscall, std::vector<Clause> clauses, Verdict otherwise) {
    const int number =
        rules_.architecture == Architecture::X86_64 ? syscall.x86_64 : syscall.aarch64;
    if (number == kNone) return;
    rules_.syscalls.push_back(
        {syscall.name, static_cast<std::uint32_t>(number), std::move(clauses), otherwise});
  }

  void add(std::span<const SyscallNumber> syscalls, Verdict verdict) {
    for (const SyscallNumber& syscall : syscalls) add(syscall, {}, verdict);
  }

  FilterRules finish() && {
    std::ranges::sort(rules_.syscalls, {}, &SyscallRule::number);
    return std::move(rules_);
  }

 private:
  FilterRules rules_;
};

void add_process_rules(RuleTable& table) {
  // clone looks at the low half alone. Its lowest byte is the signal of the child's end, where
  // CLONE_NEWTIME would be no signal that exists.
  constexpr std::uint64_t kNewTime = 0x80;
  constexpr std::uint64_t kNewNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                           CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                                           CLONE_NEWNET | kNewTime;
  table.add({"clone", 56, 220}, {{{has_any(0, kNewNamespaces)}, Verdict::refuse(EPERM)}},
            Verdict::allow());

  // Threads may stop sharing what they share. All 64 bits are the flags here.
  constexpr std::uint64_t kOwnShare = CLONE_FILES | CLONE_FS | CLONE_SYSVSEM;
  table.add({"unshare", 272, 97}, {{{one_of(0, {0}, kAll64 & ~kOwnShare)}, Verdict::allow()}},
            Verdict::refuse(EPERM));

  // Debuggers turn off address randomisation for what they start, and old programs want a 2.6
  // kernel's name. The others (32-bit mode, page zero, readable means executable) weaken a process
  // that runs a hostile input, or lead to code that is hardly used.
  constexpr std::uint64_t kAsk = 0xffff'ffff;
  table.add({"personality", 135, 92},
            {{{one_of(0, {PER_LINUX, UNAME26, ADDR_NO_RANDOMIZE, kAsk})}, Verdict::allow()}},
            Verdict::refuse(EPERM));

  // The options of prctl concern the caller alone and are many, so two are named and the others
  // pass: one rewrites what /proc says of the process, one invites a tracer.
  table.add({"prctl", 157, 167},
            {{{one_of(0, {PR_SET_MM, PR_SET_PTRACER})}, Verdict::refuse(EPERM)}}, Verdict::allow());

  // A program may add filters, which can only refuse more. With a listener it could answer calls in
  // another's place, and there can be one listener only.
  table.add({"seccomp", 317, 277},
            {{{one_of(0, {SECCOMP_SET_MODE_FILTER}), has_any(1, SECCOMP_FILTER_FLAG_NEW_LISTENER)},
              Verdict::refuse(EPERM)}},
            Verdict::allow());

  // Pid 0 is the caller: memory allocators place their own pages.
  table.add({"move_pages", 279, 239}, {{{one_of(0, {0})}, Verdict::allow()}},
            Verdict::refuse(EPERM));
}

void add_socket_rules(RuleTable& table) {
  constexpr std::uint8_t kFamily = 0, kType = 1, kProtocol = 2;
  constexpr std::uint64_t kTypeBits = 0xf;  // above them are SOCK_CLOEXEC and SOCK_NONBLOCK
  const ArgumentTest local = one_of(kFamily, {AF_UNIX});
  const ArgumentTest internet = one_of(kFamily, {AF_INET, AF_INET6});
  const ArgumentTest local_type =
      one_of(kType, {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}, kTypeBits);

  // Under SOCK_STREAM and SOCK_DGRAM are also SCTP, MPTCP, SMC, L2TP, UDP-Lite and ping. The kernel
  // loads modules for them on request, and few programs would miss them.
  table.add(
      {"socket", 41, 198},
      {{{local, local_type}, Verdict::allow()},
       {{internet, one_of(kType, {SOCK_STREAM}, kTypeBits), one_of(kProtocol, {0, IPPROTO_TCP})},
        Verdict::allow()},
       {{internet, one_of(kType, {SOCK_DGRAM}, kTypeBits), one_of(kProtocol, {0, IPPROTO_UDP})},
        Verdict::allow()},
       {{internet, one_of(kType, {SOCK_STREAM, SOCK_DGRAM}, kTypeBits)},
        Verdict::refuse(EPROTONOSUPPORT)},
       {{one_of(kFamily, {AF_UNIX, AF_INET, AF_INET6})}, Verdict::refuse(EPERM)}},
      Verdict::refuse(EAFNOSUPPORT));

  table.add({"socketpair", 53, 199},
            {{{local, local_type}, Verdict::allow()}, {{local}, Verdict::refuse(EPERM)}},
            Verdict::refuse(EAFNOSUPPORT));

  // TCP_ULP puts the kernel's TLS, another module with a history, under a socket. ENOENT is what a
  // kernel without it says.
  // The kernel's tables do not find a socket by its addresses once it is bound to a device: the
  // broker would take a connection for ended that is not. A box has no device to choose.
  table.add({"setsockopt", 54, 208},
            {{{one_of(1, {IPPROTO_TCP}), one_of(2, {TCP_ULP})}, Verdict::refuse(ENOENT)},
             {{one_of(1, {SOL_SOCKET}), one_of(2, {SO_BINDTODEVICE, SO_BINDTOIFINDEX})},
              Verdict::refuse(EPERM)}},
            Verdict::allow());
}

void add_file_rules(RuleTable& table) {
  // TIOCSTI and TIOCLINUX type into the terminal of whoever started the box. TIOCCONS takes the
  // console's output, and TIOCSETD loads line disciplines, which had many holes.
  table.add({"ioctl", 16, 29},
            {{{one_of(1, {TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD})}, Verdict::refuse(EPERM)}},
            Verdict::allow());

  // In the box set-user-ID means nothing (nosuid, no_new_privs). But a file in a workspace outlives
  // the box, belongs to the workspace's owner, and lies where any local user may run it. The kernel
  // clears the bits at the first write, but set-group-ID only of a file that its group may execute,
  // and an access list makes it one afterwards.
  constexpr std::uint64_t kSetId = S_ISUID | S_ISGID;
  const auto no_set_id = [](std::uint8_t argument) {
    return std::vector<Clause>{{{has_any(argument, kSetId)}, Verdict::refuse(EPERM)}};
  };
  constexpr std::uint64_t kMakes = O_CREAT | (O_TMPFILE & ~O_DIRECTORY);
  const auto no_set_id_made = [](std::uint8_t flags, std::uint8_t mode) {
    return std::vector<Clause>{
        {{has_any(flags, kMakes), has_any(mode, kSetId)}, Verdict::refuse(EPERM)}};
  };
  table.add({"open", 2, kNone}, no_set_id_made(1, 2), Verdict::allow());
  table.add({"openat", 257, 56}, no_set_id_made(2, 3), Verdict::allow());
  table.add({"creat", 85, kNone}, no_set_id(1), Verdict::allow());
  table.add({"chmod", 90, kNone}, no_set_id(1), Verdict::allow());
  table.add({"fchmod", 91, 52}, no_set_id(1), Verdict::allow());
  table.add({"fchmodat", 268, 53}, no_set_id(2), Verdict::allow());
  table.add({"fchmodat2", 452, 452}, no_set_id(2), Verdict::allow());

  // No devices, and no whiteouts either, which are devices 0:0 that anyone may make: one in an
  // upper layer hides a file below. A type of 0 means a regular file.
  const auto plain_node = [](std::uint8_t argument) {
    return std::vector<Clause>{
        {{one_of(argument, {0, S_IFREG, S_IFIFO, S_IFSOCK}, S_IFMT | kSetId)}, Verdict::allow()}};
  };
  table.add({"mknod", 133, kNone}, plain_node(1), Verdict::refuse(EPERM));
  table.add({"mknodat", 259, 33}, plain_node(2), Verdict::refuse(EPERM));
  // EINVAL is what a filesystem without whiteouts says.
  table.add({"renameat2", 316, 276}, {{{has_any(4, RENAME_WHITEOUT)}, Verdict::refuse(EINVAL)}},
            Verdict::allow());
}

}  // namespace

FilterRules default_filter_rules(Architecture architecture) {
  RuleTable table(architecture);
  table.add(kAllowed, Verdict::allow());
  table.add(kRefused, Verdict::refuse(EPERM));
  table.add(kAbsent, Verdict::refuse(ENOSYS));
  add_process_rules(table);
  add_socket_rules(table);
  add_file_rules(table);
  return std::move(table).finish();
}

}  // namespace glovebox::plan
