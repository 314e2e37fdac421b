// The filter, read as data in every way that the kernel could read it, compared with what
// libseccomp makes of the same policy, and at last installed.
#include "plan/filter.h"

#include "base/result.h"
#include "base/unique_fd.h"
#include "plan/filter_evaluate.h"
#include "plan/filter_rules.h"

#include <gtest/gtest.h>
#include <seccomp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include <fcntl.h>
#include <linux/audit.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::plan {
namespace {

using Arguments = std::array<std::uint64_t, 6>;
using Program = std::vector<sock_filter>;

constexpr std::uint64_t kHighBit = std::uint64_t{1} << 32;
constexpr Architecture kArchitectures[] = {Architecture::X86_64, Architecture::Aarch64};

std::uint32_t libseccomp_architecture(Architecture architecture) {
  return architecture == Architecture::X86_64 ? SCMP_ARCH_X86_64 : SCMP_ARCH_AARCH64;
}

seccomp_data call_data(Architecture architecture, std::uint32_t number,
                       const Arguments& arguments) {
  seccomp_data data = {};
  data.nr = static_cast<int>(number);
  data.arch = audit_architecture(architecture);
  std::copy(arguments.begin(), arguments.end(), data.args);
  return data;
}

bool passes(const ArgumentTest& test, const seccomp_data& data) {
  const bool found = std::ranges::count(test.values, data.args[test.argument] & test.mask) != 0;
  return found == (test.relation == ArgumentTest::Relation::OneOf);
}

// What the rules say, word for word.
Verdict read_rules(const FilterRules& rules, const seccomp_data& data) {
  if (data.arch != audit_architecture(rules.architecture)) return rules.foreign;
  for (const SyscallRule& rule : rules.syscalls) {
    if (rule.number != static_cast<std::uint32_t>(data.nr)) continue;
    for (const Clause& clause : rule.clauses) {
      const auto passed = [&data](const ArgumentTest& test) { return passes(test, data); };
      if (std::ranges::all_of(clause.tests, passed)) return clause.verdict;
    }
    return rule.otherwise;
  }
  return rules.unknown;
}

// Values that come close to what a test looks for: with the high half set, one bit off, with every
// bit that the mask leaves out, and each bit of the mask alone.
void add_candidates(const ArgumentTest& test, std::set<std::uint64_t>& candidates) {
  for (const std::uint64_t value : test.values) {
    candidates.insert({value, value | kHighBit, value | kHighBit << 31, value ^ 1,
                       value | ~test.mask, value | (~test.mask & kLow32), value + 1});
  }
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t alone = std::uint64_t{1} << bit;
    // A mask of a whole half says nothing about single bits.
    if ((test.mask & alone) != 0 && test.mask != kLow32) candidates.insert(alone);
  }
}

// All combinations of such values for the arguments that a rule tests.
std::vector<Arguments> sample_arguments(const SyscallRule& rule) {
  std::map<std::uint8_t, std::set<std::uint64_t>> candidates;
  for (const Clause& clause : rule.clauses) {
    for (const ArgumentTest& test : clause.tests) {
      candidates[test.argument].insert({0, kHighBit, kLow32, kAll64});
      add_candidates(test, candidates[test.argument]);
    }
  }
  std::vector<Arguments> samples = {Arguments{}};
  for (const auto& [argument, values] : candidates) {
    std::vector<Arguments> longer;
    for (Arguments sample : samples) {
      for (const std::uint64_t value : values) {
        sample[argument] = value;
        longer.push_back(sample);
      }
    }
    samples = std::move(longer);
  }
  samples.push_back({kAll64, kAll64, kAll64, kAll64, kAll64, kAll64});
  return samples;
}

std::vector<std::uint32_t> all_numbers() {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t number = 0; number < 1024; ++number) {
    numbers.insert(numbers.end(), {number, number | 0x4000'0000, number | 0x8000'0000});
  }
  numbers.insert(numbers.end(), {0x3fff'ffff, 0x7fff'ffff, 0xffff'fffe, 0xffff'ffff});
  return numbers;
}

void expect_agreement(const FilterRules& rules) {
  const Program program = compile_filter(rules);
  for (const std::uint32_t number : all_numbers()) {
    const auto rule = std::ranges::find(rules.syscalls, number, &SyscallRule::number);
    const SyscallRule none;
    for (const Arguments& arguments :
         sample_arguments(rule == rules.syscalls.end() ? none : *rule)) {
      const seccomp_data data = call_data(rules.architecture, number, arguments);
      ASSERT_EQ(evaluate_filter(program, data), seccomp_action(read_rules(rules, data)))
          << "number " << number << ::testing::PrintToString(arguments);
    }
  }
}

std::uint32_t default_answer(std::string_view name, const Arguments& arguments) {
  static const FilterRules rules = default_filter_rules(Architecture::X86_64);
  static const Program program = compile_filter(rules);
  const SyscallRule* rule = rules.find(name);
  if (rule == nullptr) return 0;
  return evaluate_filter(program, call_data(Architecture::X86_64, rule->number, arguments));
}

constexpr std::uint32_t kAllowed = SECCOMP_RET_ALLOW;
constexpr std::uint32_t refused(int error) {
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
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
      {"move_pages", {1}, refused(EPERM)},
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

TEST(Filter, IsSmallAndShallow) {
  for (const Architecture architecture : kArchitectures) {
    const FilterRules rules = default_filter_rules(architecture);
    const Program program = compile_filter(rules);
    EXPECT_LT(program.size(), 240u);
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

// A filter by libseccomp for x86_64.
class Oracle {
 public:
  explicit Oracle(std::uint32_t otherwise)
      : context_(seccomp_init(otherwise), &seccomp_release), otherwise_(otherwise) {
    EXPECT_EQ(seccomp_attr_set(context_.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), 0);
  }

  void add(std::uint32_t action, std::uint32_t number, const std::vector<scmp_arg_cmp>& tests) {
    if (action == otherwise_) return;  // libseccomp refuses to say the same twice
    EXPECT_EQ(seccomp_rule_add_exact_array(context_.get(), action, static_cast<int>(number),
                                           static_cast<unsigned>(tests.size()), tests.data()),
              0)
        << number;
  }

  Program program() const {
    const UniqueFd file(memfd_create("oracle", MFD_CLOEXEC));
    EXPECT_EQ(seccomp_export_bpf(context_.get(), file.get()), 0);
    const off_t bytes = lseek(file.get(), 0, SEEK_END);
    Program program(static_cast<std::size_t>(bytes) / sizeof(sock_filter));
    EXPECT_EQ(pread(file.get(), program.data(), static_cast<std::size_t>(bytes), 0), bytes);
    return program;
  }

 private:
  std::unique_ptr<void, decltype(&seccomp_release)> context_;
  std::uint32_t otherwise_;
};

scmp_arg_cmp masked(unsigned argument, std::uint64_t mask, std::uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

// The policy for one call in libseccomp's words. Its rules have no order, so they must not overlap.
struct HandWritten {
  struct Rule {
    std::uint32_t action;
    std::vector<scmp_arg_cmp> tests;
  };
  std::uint32_t otherwise;
  std::vector<Rule> rules;
};

HandWritten only(std::uint32_t otherwise, std::uint32_t action, unsigned argument,
                 std::uint64_t mask, const std::vector<std::uint64_t>& values) {
  HandWritten policy{otherwise, {}};
  for (const std::uint64_t value : values) {
    policy.rules.push_back({action, {masked(argument, mask, value)}});
  }
  return policy;
}

// libseccomp cannot say "none of these", so the refused protocols are written out.
HandWritten hand_written_socket(const std::set<std::uint64_t>& protocols) {
  HandWritten policy{refused(EAFNOSUPPORT), {}};
  for (const std::uint64_t family : {1u, 2u, 10u}) {
    for (std::uint64_t type = 0; type < 16; ++type) {
      const std::vector<scmp_arg_cmp> made = {masked(0, kLow32, family), masked(1, 0xf, type)};
      if (family == 1 || type == 0 || type > 2) {
        const bool allowed = family == 1 && (type == 1 || type == 2 || type == 5);
        policy.rules.push_back({allowed ? kAllowed : refused(EPERM), made});
        continue;
      }
      for (const std::uint64_t protocol : protocols) {
        const bool allowed = protocol == 0 || protocol == (type == 1 ? 6u : 17u);
        std::vector<scmp_arg_cmp> tests = made;
        tests.push_back(masked(2, kLow32, protocol));
        policy.rules.push_back({allowed ? kAllowed : refused(EPROTONOSUPPORT), tests});
      }
    }
  }
  return policy;
}

std::map<std::string_view, HandWritten> hand_written(const std::set<std::uint64_t>& protocols) {
  constexpr std::uint64_t kFree = 0x400 | 0x200 | 0x40000;  // CLONE_FILES, FS and SYSVSEM
  constexpr std::uint32_t kEperm = refused(EPERM);
  std::map<std::string_view, HandWritten> policy;
  policy["clone"] = only(kEperm, kAllowed, 0, 0x7e02'0080, {0});
  policy["unshare"] = only(kEperm, kAllowed, 0, ~kFree, {0});
  policy["personality"] = only(kEperm, kAllowed, 0, kLow32, {0, 0x20000, 0x40000, kLow32});
  policy["prctl"] = only(kAllowed, kEperm, 0, kLow32, {35, 0x5961'6d61});
  policy["seccomp"] = {kAllowed, {{kEperm, {masked(0, kLow32, 1), masked(1, 8, 8)}}}};
  policy["move_pages"] = only(kEperm, kAllowed, 0, kLow32, {0});
  policy["ioctl"] = only(kAllowed, kEperm, 1, kLow32, {0x5412, 0x541c, 0x541d, 0x5423});
  policy["setsockopt"] = {kAllowed,
                          {{refused(ENOENT), {masked(1, kLow32, 6), masked(2, kLow32, 31)}}}};
  policy["chmod"] = policy["fchmod"] = only(kEperm, kAllowed, 1, 06000, {0});
  policy["fchmodat"] = policy["fchmodat2"] = only(kEperm, kAllowed, 2, 06000, {0});
  policy["mknod"] = only(kEperm, kAllowed, 1, 0176000, {0, 0100000, 0010000, 0140000});
  policy["mknodat"] = only(kEperm, kAllowed, 2, 0176000, {0, 0100000, 0010000, 0140000});
  policy["renameat2"] = only(kAllowed, refused(EINVAL), 4, 4, {4});
  policy["socketpair"] = {refused(EAFNOSUPPORT), {}};
  for (std::uint64_t type = 0; type < 16; ++type) {
    const bool allowed = type == 1 || type == 2 || type == 5;
    policy["socketpair"].rules.push_back(
        {allowed ? kAllowed : kEperm, {masked(0, kLow32, 1), masked(1, 0xf, type)}});
  }
  policy["socket"] = hand_written_socket(protocols);
  return policy;
}

TEST(FilterOracle, AgreesWithLibseccompOnUnconditionalCalls) {
  const FilterRules rules = default_filter_rules(Architecture::X86_64);
  const Program ours = compile_filter(rules);
  Oracle oracle(refused(ENOSYS));
  std::set<std::uint32_t> conditional;
  for (const SyscallRule& rule : rules.syscalls) {
    if (!rule.clauses.empty()) conditional.insert(rule.number);
    if (rule.clauses.empty()) oracle.add(seccomp_action(rule.otherwise), rule.number, {});
  }
  const Program theirs = oracle.program();
  for (const std::uint32_t number : all_numbers()) {
    // libseccomp takes x32 for another architecture and kills; ours answers ENOSYS, tested above.
    if (conditional.contains(number) || (number & 0x4000'0000) != 0) continue;
    if ((number & 0x8000'0000) != 0) continue;  // the same to libseccomp
    const seccomp_data data = call_data(Architecture::X86_64, number, {});
    EXPECT_EQ(evaluate_filter(ours, data), evaluate_filter(theirs, data)) << number;
  }
}

TEST(FilterOracle, AgreesWithLibseccompOnArguments) {
  const FilterRules rules = default_filter_rules(Architecture::X86_64);
  const Program ours = compile_filter(rules);
  std::set<std::uint64_t> protocols;
  for (const Arguments& sample : sample_arguments(*rules.find("socket"))) {
    protocols.insert(sample[2] & kLow32);
  }
  const std::map<std::string_view, HandWritten> policies = hand_written(protocols);
  std::size_t compared = 0;
  for (const SyscallRule& rule : rules.syscalls) {
    if (rule.clauses.empty()) continue;
    ASSERT_TRUE(policies.contains(rule.name)) << rule.name;
    const HandWritten& policy = policies.at(rule.name);
    Oracle oracle(policy.otherwise);
    for (const auto& [action, tests] : policy.rules) oracle.add(action, rule.number, tests);
    const Program theirs = oracle.program();
    for (const Arguments& sample : sample_arguments(rule)) {
      const seccomp_data data = call_data(Architecture::X86_64, rule.number, sample);
      ASSERT_EQ(evaluate_filter(ours, data), evaluate_filter(theirs, data))
          << rule.name << ::testing::PrintToString(sample);
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000u);
}

// Many small ranges and many checks: jumps must be led over code that 8 bits cannot span.
FilterRules scattered_rules(std::uint32_t first) {
  FilterRules rules;
  rules.unknown = Verdict::allow();
  for (std::uint32_t number = first; number < first + 1000; ++number) {
    SyscallRule rule{
        "scattered", number, {}, Verdict::refuse(static_cast<std::uint16_t>(number % 5 + 1))};
    if (number % 9 == 4) {
      rule.clauses = {
          {{{1, kAll64, ArgumentTest::Relation::OneOf, {number, kHighBit << 3 | number}},
            {2, 0xff0, ArgumentTest::Relation::NoneOf, {0x10, 0x20}}},
           Verdict::notify()}};
    }
    if (number % 7 != 3) rules.syscalls.push_back(std::move(rule));
  }
  return rules;
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

int errno_of(long result) { return result < 0 ? errno : 0; }

int install(const Program& program, unsigned flags = 0) {
  sock_fprog filter = {static_cast<unsigned short>(program.size()),
                       const_cast<sock_filter*>(program.data())};
  return errno_of(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter));
}

// Runs the work in a child under the default filter; gives its wait status.
int run_filtered(const std::function<int()>& work) {
  const Program program = compile_filter(default_filter_rules());
  const pid_t child = fork();
  if (child == 0) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(120);
    if (install(program) != 0) _exit(121);
    _exit(work());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

int exit_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

TEST(FilterKernel, RefusesWhatTheRulesRefuse) {
  struct Case {
    const char* what;
    int expected;
    std::function<long()> call;
  };
  const Case cases[] = {
      {"getpid", 0, [] { return syscall(SYS_getpid); }},
      {"a number far past the table", ENOSYS, [] { return syscall(5000); }},
      {"clone3", ENOSYS, [] { return syscall(SYS_clone3, nullptr, 0); }},
      {"a user namespace", EPERM, [] { return syscall(SYS_unshare, CLONE_NEWUSER); }},
      {"a user namespace by clone", EPERM,
       [] { return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0); }},
      {"unshare of files", 0, [] { return syscall(SYS_unshare, CLONE_FILES); }},
      {"ptrace", EPERM, [] { return syscall(SYS_ptrace, 0, 0, 0, 0); }},
      {"TIOCSTI", EPERM, [] { return syscall(SYS_ioctl, -1, TIOCSTI, nullptr); }},
      {"TIOCSTI with a high bit", EPERM,
       [] { return syscall(SYS_ioctl, -1, TIOCSTI | kHighBit, nullptr); }},
      {"another ioctl", EBADF, [] { return syscall(SYS_ioctl, -1, TIOCGWINSZ, nullptr); }},
      {"netlink", EAFNOSUPPORT, [] { return syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 0); }},
      {"a raw socket", EPERM, [] { return syscall(SYS_socket, AF_INET, SOCK_RAW, 1); }},
      {"a local socket", 0, [] { return syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0); }},
      {"a pair of sockets", 0,
       [] {
         int pair[2];
         return syscall(SYS_socketpair, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair);
       }},
      {"set-user-ID", EPERM, [] { return syscall(SYS_fchmod, -1, 04755); }},
      {"a plain mode", EBADF, [] { return syscall(SYS_fchmod, -1, 0755); }},
      {"setgroups", EPERM, [] { return syscall(SYS_setgroups, 0, nullptr); }},
      {"asking for the personality", 0, [] { return syscall(SYS_personality, 0xffff'ffff); }},
      {"32-bit personality", EPERM, [] { return syscall(SYS_personality, 8); }},
  };
  for (const auto& [what, expected, call] : cases) {
    EXPECT_EQ(exit_code(run_filtered([&call] { return errno_of(call()); })), expected) << what;
  }
}

TEST(FilterKernel, LetsOrdinaryProgramsRun) {
  EXPECT_EQ(exit_code(run_filtered([] {
              int ran = 0;
              std::thread([&ran] { ran = 7; }).join();
              return ran;
            })),
            7);
  EXPECT_EQ(exit_code(run_filtered([] {
              execl("/bin/sh", "sh", "-c", "test \"$(ls -l / | sort | head -n 1)\" && exit 9",
                    nullptr);
              return 1;
            })),
            9);
}

TEST(FilterKernel, LetsAProgramAddAFilterWithoutAListener) {
  const Program more = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  EXPECT_EQ(exit_code(run_filtered([&more] { return install(more); })), 0);
  EXPECT_EQ(
      exit_code(run_filtered([&more] { return install(more, SECCOMP_FILTER_FLAG_NEW_LISTENER); })),
      EPERM);
}

TEST(FilterKernel, TakesALongProgram) {
  // Past the numbers that exist, so that the child lives to tell.
  const FilterRules rules = scattered_rules(/*first=*/1000);
  const Program program = compile_filter(rules);
  ASSERT_GT(program.size(), 1500u);
  EXPECT_EQ(exit_code(run_filtered([&program] { return install(program); })), 0);
}

#if defined(__x86_64__)
TEST(FilterKernel, RefusesTheX32Entry) {
  EXPECT_EQ(exit_code(run_filtered([] { return errno_of(syscall(0x4000'0000 | SYS_getpid)); })),
            ENOSYS);
}

TEST(FilterKernel, KillsWhoeverUsesThe32BitEntry) {
  const int end = exit_code(run_filtered([] {
    long result = 20;  // getpid of i386
    asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    return 3;
  }));
  if (end == -SIGSEGV) GTEST_SKIP() << "this kernel has no 32-bit entry";
  EXPECT_EQ(end, -SIGSYS);
}
#endif

}  // namespace
}  // namespace glovebox::plan
