// The filter, read as data in every way that the kernel could read it.
#include "authority/names.h"
#include "base/result.h"
#include "plan/filter/filter_requests.h"
#include "plan/filter/filter_test_support.h"

#include <seccomp.h>

#include <cerrno>
#include <cstdlib>

#include <linux/audit.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace glovebox::plan {
namespace {

std::uint32_t libseccomp_architecture(Architecture architecture) {
  return architecture == Architecture::X86_64 ? SCMP_ARCH_X86_64 : SCMP_ARCH_AARCH64;
}

TEST(Filter, AgreesWithItsRulesForEveryNumber) {
  for (const Architecture architecture : kArchitectures) {
    expect_agreement(default_filter_rules(architecture));
  }
}

TEST(Filter, KillsWhatComesFromAnotherArchitecture) {
  constexpr std::uint32_t kForeign[] = {AUDIT_ARCH_X86_64,
                                        AUDIT_ARCH_AARCH64,
                                        AUDIT_ARCH_I386,
                                        AUDIT_ARCH_ARM,
                                        AUDIT_ARCH_RISCV64,
                                        AUDIT_ARCH_PPC64LE,
                                        AUDIT_ARCH_S390X,
                                        AUDIT_ARCH_X86_64 ^ 0x8000'0000,
                                        0,
                                        0xffff'ffff};
  for (const Architecture own : kArchitectures) {
    const Program program = compile_filter(default_filter_rules(own));
    for (const std::uint32_t foreign : kForeign) {
      if (foreign == audit_architecture(own)) continue;
      for (const std::uint32_t number : all_numbers()) {
        seccomp_data data = call_data(own, number, {});
        data.arch = foreign;
        ASSERT_EQ(evaluate_filter(program, data), SECCOMP_RET_KILL_PROCESS) << number;
      }
    }
  }
}

TEST(Filter, AnswersUnknownAndX32NumbersWithEnosys) {
  const Program program = compile_filter(default_filter_rules(Architecture::X86_64));
  const auto answer = [&program](std::uint32_t number) {
    return evaluate_filter(program, call_data(Architecture::X86_64, number, {}));
  };
  for (std::uint32_t number = 472; number < 1024; ++number) {
    EXPECT_EQ(answer(number), refused(ENOSYS)) << number;
  }
  for (std::uint32_t number = 0; number < 1024; ++number) {
    EXPECT_EQ(answer(number | 0x4000'0000), refused(ENOSYS)) << number;
  }
  EXPECT_EQ(answer(0xffff'ffff), refused(ENOSYS));
}

TEST(Filter, ReadsArgumentsAsWideAsTheKernelDoes) {
  struct Case {
    std::string_view name;
    Arguments arguments;
    std::uint32_t answer;
  };
  constexpr std::uint64_t kOpen = SOCK_CLOEXEC | SOCK_NONBLOCK;
  const Case cases[] = {
      {"ioctl", {0, TIOCSTI}, refused(EPERM)},
      {"ioctl", {0, TIOCSTI | kHighBit}, refused(EPERM)},
      {"ioctl", {0, TIOCLINUX | kHighBit << 31}, refused(EPERM)},
      {"ioctl", {0, TIOCSETD}, refused(EPERM)},
      {"ioctl", {0, TIOCCONS}, refused(EPERM)},
      {"ioctl", {TIOCSTI, TIOCGWINSZ, TIOCSTI}, kAllowed},
      {"clone", {SIGCHLD}, kAllowed},
      {"clone", {0x3d0f00}, kAllowed},  // a thread of glibc
      {"clone", {SIGCHLD | CLONE_NEWUSER}, refused(EPERM)},
      {"clone", {SIGCHLD | CLONE_NEWUSER | kHighBit}, refused(EPERM)},
      {"clone", {SIGCHLD | std::uint64_t{CLONE_NEWUSER} << 32}, kAllowed},  // the kernel drops it
      {"unshare", {CLONE_FILES | CLONE_FS}, kAllowed},
      {"unshare", {0}, kAllowed},
      {"unshare", {CLONE_NEWNS | CLONE_FS}, refused(EPERM)},
      {"unshare", {CLONE_FILES | kHighBit}, refused(EPERM)},
      {"personality", {8}, refused(EPERM)},
      {"personality", {0x40000}, kAllowed},
      {"personality", {kLow32}, kAllowed},
      {"personality", {0x0400000}, refused(EPERM)},  // READ_IMPLIES_EXEC
      {"socket", {AF_INET, SOCK_STREAM | kOpen, 0}, kAllowed},
      {"socket", {AF_INET6 | kHighBit, SOCK_DGRAM | kOpen, 17}, kAllowed},
      {"socket", {AF_UNIX, SOCK_SEQPACKET | kOpen, 0}, kAllowed},
      {"socket", {AF_UNIX, SOCK_RAW, 0}, refused(EPERM)},
      {"socket", {AF_INET, SOCK_RAW | kOpen, 1}, refused(EPERM)},
      {"socket", {AF_INET, SOCK_RAW | kHighBit, 1}, refused(EPERM)},
      {"socket", {AF_INET, SOCK_SEQPACKET, 0}, refused(EPERM)},
      {"socket", {AF_INET, SOCK_STREAM, 132}, refused(EPROTONOSUPPORT)},  // SCTP
      {"socket", {AF_INET, SOCK_DGRAM, 1}, refused(EPROTONOSUPPORT)},     // ping
      {"socket", {AF_NETLINK, SOCK_RAW, 0}, refused(EAFNOSUPPORT)},
      {"socket", {AF_PACKET | kHighBit, SOCK_RAW, 0}, refused(EAFNOSUPPORT)},
      {"socketpair", {AF_UNIX, SOCK_STREAM | kOpen}, kAllowed},
      {"socketpair", {AF_INET, SOCK_STREAM}, refused(EAFNOSUPPORT)},
      {"setsockopt", {3, 6, 31}, refused(ENOENT)},
      {"setsockopt", {3, 6, 1}, kAllowed},
      {"setsockopt", {3, 1, 25}, refused(EPERM)},  // SO_BINDTODEVICE
      {"setsockopt", {3, 1, 62}, refused(EPERM)},  // SO_BINDTOIFINDEX
      {"setsockopt", {3, 0, 25}, kAllowed},
      {"seccomp", {1, 0}, kAllowed},
      {"seccomp", {1, 1 | 8}, refused(EPERM)},
      {"seccomp", {1 | kHighBit, 8 | kHighBit}, refused(EPERM)},
      {"prctl", {35}, refused(EPERM)},
      {"prctl", {0x59616d61 | kHighBit}, refused(EPERM)},
      {"prctl", {22}, kAllowed},
      {"mknod", {0, S_IFIFO | 0600}, kAllowed},
      {"mknod", {0, 0600}, kAllowed},
      {"mknod", {0, S_IFCHR | 0600}, refused(EPERM)},
      {"mknodat", {0, 0, S_IFBLK | kHighBit}, refused(EPERM)},
      {"mknodat", {0, 0, S_IFREG | 04755}, refused(EPERM)},
      {"chmod", {0, 0755}, kAllowed},
      {"chmod", {0, 04755}, refused(EPERM)},
      {"fchmod", {0, 02755 | kHighBit}, refused(EPERM)},
      {"fchmodat", {0, 04755, 01777}, kAllowed},
      {"fchmodat2", {0, 0, 06000}, refused(EPERM)},
      {"renameat2", {0, 0, 0, 0, 4}, refused(EINVAL)},
      {"move_pages", {0}, refused(ENOSYS)},
      {"ioctl", {0, TCGETS}, kAllowed},
      {"ioctl", {0, TCGETS | kHighBit}, kAllowed},  // the kernel drops it
      {"ioctl", {0, 0xb702}, refused(ENOTTY)},      // NS_GET_PARENT
      {"ioctl", {0, 0xff01}, refused(ENOTTY)},      // PIDFD_GET_CGROUP_NAMESPACE
      {"ioctl", {0, 0x40049409}, kAllowed},         // FICLONE
      {"ioctl", {0, 0x8914}, refused(ENOTTY)},      // SIOCSIFFLAGS
      {"ioctl", {0, 0}, refused(ENOTTY)},
      {"ioctl", {0, kLow32}, refused(ENOTTY)},
      {"prctl", {15}, kAllowed},          // PR_SET_NAME
      {"prctl", {59}, refused(EINVAL)},   // PR_SET_SYSCALL_USER_DISPATCH
      {"prctl", {62}, refused(EINVAL)},   // PR_SCHED_CORE
      {"prctl", {67}, refused(EINVAL)},   // PR_SET_MEMORY_MERGE
      {"prctl", {0x53564d41}, kAllowed},  // PR_SET_VMA
      {"prctl", {15 | kHighBit}, kAllowed},
  };
  for (const auto& [name, arguments, answer] : cases) {
    EXPECT_EQ(default_answer(name, arguments), answer)
        << name << ::testing::PrintToString(arguments);
  }
}

// What the box must never be able to do, name by name.
TEST(Filter, RefusesTheDangerousCalls) {
  for (const char* name : {"ptrace",
                           "process_vm_readv",
                           "process_vm_writev",
                           "process_madvise",
                           "pidfd_getfd",
                           "kcmp",
                           "migrate_pages",
                           "bpf",
                           "userfaultfd",
                           "perf_event_open",
                           "io_uring_setup",
                           "io_uring_enter",
                           "add_key",
                           "request_key",
                           "keyctl",
                           "mount",
                           "umount2",
                           "open_tree",
                           "open_tree_attr",
                           "move_mount",
                           "fsopen",
                           "fsconfig",
                           "fsmount",
                           "fspick",
                           "mount_setattr",
                           "setns",
                           "chroot",
                           "pivot_root",
                           "init_module",
                           "finit_module",
                           "delete_module",
                           "kexec_load",
                           "reboot",
                           "kexec_file_load",
                           "swapon",
                           "swapoff",
                           "quotactl",
                           "quotactl_fd",
                           "acct",
                           "syslog",
                           "lookup_dcookie",
                           "vhangup",
                           "nfsservctl",
                           "uselib",
                           "ustat",
                           "sysfs",
                           "fanotify_init",
                           "fanotify_mark",
                           "modify_ldt",
                           "open_by_handle_at",
                           "name_to_handle_at",
                           "iopl",
                           "ioperm",
                           "settimeofday",
                           "clock_settime",
                           "adjtimex",
                           "clock_adjtime",
                           "setgroups",
                           "sethostname",
                           "setdomainname",
                           "listns",
                           "io_uring_register"}) {
    EXPECT_EQ(default_answer(name, {}), refused(EPERM)) << name;
  }
  for (const char* name : {"clone3", "io_setup", "memfd_secret", "cachestat", "remap_file_pages"}) {
    EXPECT_EQ(default_answer(name, {}), refused(ENOSYS)) << name;
  }
}

// What few programs need says what a kernel without it says.
TEST(Filter, LeavesOutWhatFewProgramsNeed) {
  for (const char* name : {"semget",        "semop",         "semtimedop",
                           "semctl",        "msgget",        "msgsnd",
                           "msgrcv",        "msgctl",        "mq_open",
                           "mq_unlink",     "mq_timedsend",  "mq_timedreceive",
                           "mq_notify",     "mq_getsetattr", "mbind",
                           "get_mempolicy", "set_mempolicy", "set_mempolicy_home_node",
                           "move_pages",    "tee",           "vmsplice",
                           "sync",          "syncfs",        "map_shadow_stack"}) {
    EXPECT_EQ(default_answer(name, {}), refused(ENOSYS)) << name;
  }
  EXPECT_EQ(default_answer("sched_setattr", {}), refused(EPERM));
  for (const char* name : {"shmget", "splice", "sendfile", "fsync", "sched_setscheduler"}) {
    EXPECT_EQ(default_answer(name, {}), kAllowed) << name;
  }
}

TEST(Filter, BringsAGroupBackAndNoOther) {
  const std::map<std::string_view, std::string_view> one_of_each{
      {"mqueue", "mq_open"},      {"numa", "mbind"},
      {"sched", "sched_setattr"}, {"shadow-stack", "map_shadow_stack"},
      {"splice", "tee"},          {"sync", "syncfs"},
      {"sysv-ipc", "semget"}};
  for (const Architecture architecture : kArchitectures) {
    for (const std::string_view group : authority::syscall_groups()) {
      FilterRules rules = default_filter_rules(architecture);
      bring_back(rules, group);
      EXPECT_NE(rules, default_filter_rules(architecture)) << group;
      expect_agreement(rules);
      for (const auto& [name, call] : one_of_each) {
        const bool allowed = rules.find(call)->otherwise == Verdict::allow();
        EXPECT_EQ(allowed, name == group) << group << " and " << call;
      }
    }
  }
}

TEST(Filter, BringsBackNothingThatIsDangerous) {
  FilterRules rules = default_filter_rules(Architecture::X86_64);
  for (const std::string_view group : authority::syscall_groups()) bring_back(rules, group);
  const Program program = compile_filter(rules);
  const auto answer = [&](std::string_view name, const Arguments& arguments) {
    return evaluate_filter(program,
                           call_data(Architecture::X86_64, rules.find(name)->number, arguments));
  };
  EXPECT_EQ(answer("ioctl", {0, 0xb702}), kAllowed);
  for (const std::uint64_t request : {TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD}) {
    EXPECT_EQ(answer("ioctl", {0, request}), refused(EPERM)) << request;
  }
  EXPECT_EQ(answer("prctl", {59}), kAllowed);
  EXPECT_EQ(answer("prctl", {PR_SET_MM}), refused(EPERM));
  EXPECT_EQ(answer("prctl", {0x59616d61}), refused(EPERM));
  EXPECT_EQ(answer("move_pages", {0}), kAllowed);
  EXPECT_EQ(answer("move_pages", {1}), refused(EPERM));
}

TEST(Filter, FindsARequestInFewSteps) {
  const FilterRules rules = default_filter_rules(Architecture::X86_64);
  const Program program = compile_filter(rules);
  for (const auto& [name, request] :
       std::initializer_list<std::pair<std::string_view, std::uint64_t>>{{"ioctl", TCGETS},
                                                                         {"ioctl", FIONREAD},
                                                                         {"ioctl", FIOCLEX},
                                                                         {"ioctl", 0xb702},
                                                                         {"prctl", PR_SET_NAME},
                                                                         {"prctl", 59}}) {
    const Arguments arguments{request, request};
    const FilterRun run =
        run_filter(program, call_data(Architecture::X86_64, rules.find(name)->number, arguments));
    EXPECT_LE(run.steps, 32u) << name << " " << request;
  }
}

TEST(Filter, IsSmallAndShallow) {
  for (const Architecture architecture : kArchitectures) {
    const FilterRules rules = default_filter_rules(architecture);
    const Program program = compile_filter(rules);
    EXPECT_LT(program.size(), 320u);
    for (const SyscallRule& rule : rules.syscalls) {
      if (!rule.clauses.empty()) continue;
      const FilterRun run = run_filter(program, call_data(architecture, rule.number, {}));
      EXPECT_LE(run.steps, 16u) << rule.name;
    }
  }
}

// Numbers that this libseccomp may be too old to know; they are the same on all architectures.
const std::map<std::string_view, int> kYoung = {{"statmount", 457},
                                                {"listmount", 458},
                                                {"lsm_get_self_attr", 459},
                                                {"lsm_set_self_attr", 460},
                                                {"lsm_list_modules", 461},
                                                {"mseal", 462},
                                                {"setxattrat", 463},
                                                {"getxattrat", 464},
                                                {"listxattrat", 465},
                                                {"removexattrat", 466},
                                                {"open_tree_attr", 467},
                                                {"file_getattr", 468},
                                                {"file_setattr", 469},
                                                {"listns", 470},
                                                {"rseq_slice_yield", 471},
                                                {"uretprobe", 335},
                                                {"uprobe", 336}};

TEST(FilterRules, HaveTheNumbersThatLibseccompHas) {
  for (const Architecture architecture : kArchitectures) {
    for (const SyscallRule& rule : default_filter_rules(architecture).syscalls) {
      int expected = seccomp_syscall_resolve_name_arch(libseccomp_architecture(architecture),
                                                       std::string(rule.name).c_str());
      if (expected < 0 && kYoung.contains(rule.name)) expected = kYoung.at(rule.name);
      EXPECT_EQ(static_cast<int>(rule.number), expected) << rule.name;
    }
  }
}

TEST(FilterRules, DecideEveryCallByName) {
  for (const Architecture architecture : kArchitectures) {
    const FilterRules rules = default_filter_rules(architecture);
    int known = 0;
    for (int number = 0; number < 1024; ++number) {
      const std::unique_ptr<char, decltype(&std::free)> name(
          seccomp_syscall_resolve_num_arch(libseccomp_architecture(architecture), number),
          &std::free);
      if (name == nullptr) continue;
      ++known;
      EXPECT_NE(rules.find(name.get()), nullptr) << number << " " << name.get();
    }
    EXPECT_GT(known, 290);
  }
}

TEST(FilterRules, SayEachNameOnce) {
  for (const Architecture architecture : kArchitectures) {
    std::set<std::string_view> names;
    for (const SyscallRule& rule : default_filter_rules(architecture).syscalls) {
      EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    }
  }
}

TEST(FilterCompile, ReachesAcrossLongPrograms) {
  const FilterRules rules = scattered_rules(/*first=*/0);
  const Program program = compile_filter(rules);
  EXPECT_GT(program.size(), 1500u);
  EXPECT_TRUE(std::ranges::any_of(program, [](const sock_filter& instruction) {
    return instruction.code == (BPF_JMP | BPF_JA);
  }));
  expect_agreement(rules);
}

TEST(FilterCompile, TakesTheSmallestRules) {
  FilterRules rules;
  rules.unknown = Verdict::refuse(ENOSYS);
  expect_agreement(rules);
  for (const std::uint32_t number : {0u, 1u, 1023u}) {
    rules.syscalls.push_back({"one", number, {}, Verdict::allow()});
    expect_agreement(rules);
  }
}

TEST(FilterCompile, KeepsRulesApartThatDifferInOneVerdict) {
  const ArgumentTest test{0, kLow32, ArgumentTest::Relation::OneOf, {1}};
  FilterRules rules;
  rules.syscalls = {{"a", 1, {{{test}, Verdict::allow()}}, Verdict::refuse(EPERM)},
                    {"b", 2, {{{test}, Verdict::allow()}}, Verdict::refuse(EACCES)},
                    {"c", 3, {{{test}, Verdict::notify()}}, Verdict::refuse(EACCES)},
                    {"d", 4, {{{test}, Verdict::allow()}}, Verdict::refuse(EPERM)}};
  expect_agreement(rules);
}

TEST(FilterCompile, LeavesAVerdictThatNobodyFilledInAtKill) {
  EXPECT_EQ(seccomp_action(Verdict{}), SECCOMP_RET_KILL_PROCESS);
  const Program program = compile_filter(FilterRules{});
  EXPECT_EQ(evaluate_filter(program, call_data(kNativeArchitecture, 0, {})),
            SECCOMP_RET_KILL_PROCESS);
}

TEST(FilterCompile, HandsACallToABroker) {
  FilterRules rules = default_filter_rules();
  rules.find("connect")->otherwise = Verdict::notify();
  expect_agreement(rules);
  const Program program = compile_filter(rules);
  EXPECT_EQ(
      evaluate_filter(program, call_data(kNativeArchitecture, rules.find("connect")->number, {})),
      SECCOMP_RET_USER_NOTIF);
}

TEST(FilterCompile, RefusesBrokenRules) {
  const SyscallRule plain{"plain", 7, {}, Verdict::allow()};
  const auto with_test = [](ArgumentTest test) {
    return SyscallRule{"checked", 7, {{{std::move(test)}, Verdict::allow()}}, Verdict::allow()};
  };
  using Relation = ArgumentTest::Relation;
  const std::vector<std::vector<SyscallRule>> broken = {
      {plain, plain},                                                 // the same number twice
      {{"x32", 0x4000'0001, {}, Verdict::allow()}},                   //
      {{"errno 0", 7, {}, Verdict::refuse(0)}},                       //
      {{"errno 4096", 7, {}, Verdict::refuse(4096)}},                 //
      {{"no tests", 7, {{{}, Verdict::allow()}}, Verdict::allow()}},  //
      {with_test({6, kLow32, Relation::OneOf, {0}})},                 // a seventh argument
      {with_test({0, kLow32, Relation::OneOf, {}})},                  // nothing to compare with
      {with_test({0, kLow32, Relation::OneOf, {kHighBit}})},          // never equal
  };
  for (const std::vector<SyscallRule>& syscalls : broken) {
    FilterRules rules;
    rules.syscalls = syscalls;
    EXPECT_THROW(compile_filter(rules), Bug) << syscalls.front().name;
  }
}

TEST(FilterEvaluate, RefusesProgramsThatAreNotOurs) {
  const sock_filter done = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
  const std::vector<Program> broken = {
      {},
      {{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0}},                  // runs off the end
      {{BPF_JMP | BPF_JA, 0, 0, 1}, done},                    //
      {{BPF_JMP | BPF_JA, 0, 0, 0xffff'ffff}, done},          // backwards, in 32 bits
      {{BPF_JMP | BPF_JEQ | BPF_K, 200, 0, 0}, done},         //
      {{BPF_LD | BPF_W | BPF_ABS, 0, 0, 2}, done},            // not aligned
      {{BPF_LD | BPF_W | BPF_ABS, 0, 0, 64}, done},           // past seccomp_data
      {{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0xffff'fffc}, done},  //
      {{BPF_LD | BPF_B | BPF_ABS, 0, 0, 0}, done},            //
      {{BPF_ALU | BPF_DIV | BPF_K, 0, 0, 0}, done},           //
      {{BPF_ALU | BPF_ADD | BPF_K, 0, 0, 1}, done},           //
      {{BPF_LDX | BPF_W | BPF_IMM, 0, 0, 1}, done},           //
      {{BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1}, done},           //
      {{BPF_RET | BPF_A, 0, 0, 0}},                           //
      {{0xffff, 0, 0, 0}, done},
  };
  for (std::size_t i = 0; i < broken.size(); ++i) {
    EXPECT_THROW(evaluate_filter(broken[i], seccomp_data{}), Bug) << i;
  }
  EXPECT_EQ(run_filter(std::vector{done}, seccomp_data{}), (FilterRun{SECCOMP_RET_ALLOW, 1}));
}

TEST(FilterText, ListsTheRulesByName) {
  FilterRules rules;
  rules.unknown = Verdict::refuse(ENOSYS);
  using Relation = ArgumentTest::Relation;
  rules.syscalls = {
      {"zeta", 1, {}, Verdict::allow()},
      {"middle",
       2,
       {{{{0, kLow32, Relation::OneOf, {1, 2, 10}}, {1, 0xf, Relation::NoneOf, {3}}},
         Verdict::notify()},
        {{{2, kAll64, Relation::OneOf, {0}}}, Verdict::allow()}},
       Verdict::refuse(EPERM)},
      {"alpha", 3, {}, Verdict::refuse(4000)},
  };
  EXPECT_EQ(
      to_text(rules),
      "alpha                    refuse error 4000\n"
      "middle                   notify when arg0 is 0x1, 0x2 or 0xa and arg1 & 0xf is not 0x3\n"
      "                         allow when arg2 (64 bits) is 0x0\n"
      "                         refuse EPERM otherwise\n"
      "zeta                     allow\n"
      "(any other)              refuse ENOSYS\n"
      "(other architectures)    kill process\n");
}

}  // namespace
}  // namespace glovebox::plan
