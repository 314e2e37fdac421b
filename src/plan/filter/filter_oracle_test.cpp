// The filter, compared with what libseccomp makes of the same policy.
#include "base/unique_fd.h"
#include "plan/filter/filter_requests.h"
#include "plan/filter/filter_test_support.h"

#include <seccomp.h>

#include <cerrno>
#include <memory>

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::plan {
namespace {

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

// What is allowed, what is refused as dangerous, and an answer for all others.
HandWritten listed(std::uint32_t otherwise, unsigned argument,
                   std::span<const std::uint64_t> allowed,
                   const std::vector<std::uint64_t>& dangerous) {
  HandWritten policy = only(otherwise, refused(EPERM), argument, kLow32, dangerous);
  for (const std::uint64_t value : std::set<std::uint64_t>(allowed.begin(), allowed.end())) {
    policy.rules.push_back({kAllowed, {masked(argument, kLow32, value)}});
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
  policy["prctl"] = listed(refused(EINVAL), 0, allowed_prctls(), {35, 0x5961'6d61});
  policy["seccomp"] = {kAllowed, {{kEperm, {masked(0, kLow32, 1), masked(1, 8, 8)}}}};
  policy["ioctl"] = listed(refused(ENOTTY), 1, allowed_ioctls(), {0x5412, 0x541c, 0x541d, 0x5423});
  policy["setsockopt"] = {kAllowed,
                          {{refused(ENOENT), {masked(1, kLow32, 6), masked(2, kLow32, 31)}},
                           {kEperm, {masked(1, kLow32, 1), masked(2, kLow32, 25)}},
                           {kEperm, {masked(1, kLow32, 1), masked(2, kLow32, 62)}}}};
  policy["open"] = policy["openat"] = {kAllowed, {}};
  for (const std::uint64_t flag : {0100U, 020000000U}) {  // O_CREAT, __O_TMPFILE
    for (const std::uint64_t bits : {02000U, 04000U, 06000U}) {
      policy["open"].rules.push_back({kEperm, {masked(1, flag, flag), masked(2, 06000, bits)}});
      policy["openat"].rules.push_back({kEperm, {masked(2, flag, flag), masked(3, 06000, bits)}});
    }
  }
  policy["creat"] = only(kEperm, kAllowed, 1, 06000, {0});
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

}  // namespace
}  // namespace glovebox::plan
