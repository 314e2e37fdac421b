// The system call filter of the process sandbox: rules as plain data, and their translation to the
// classic BPF program that seccomp(2) takes.
//
// A FilterRules says what happens to each system call of one architecture. It starts from nothing
// allowed: a number without a rule gets ENOSYS, which is what an older kernel answers, so that
// libraries take their fallback instead of giving up. compile_filter() is pure and needs neither
// the kernel nor libseccomp, so one program can be made per shape of policy and kept.
//
// What an attacker would like: a call that reaches the kernel under another name (the 32-bit or x32
// entry, a number past the table), or an argument that the filter reads at another width than the
// kernel does. Hence the architecture is checked first, the table is closed at both ends, and each
// argument test carries the mask of the bits that the kernel looks at.
//
// Pointers are out of reach: the filter sees the address, and what it points to may change after
// the check. A rule can test numbers and flags alone.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <linux/filter.h>

namespace glovebox::plan {

enum class Architecture : std::uint8_t { X86_64, Aarch64 };

#if defined(__x86_64__) && !defined(__ILP32__)
inline constexpr Architecture kNativeArchitecture = Architecture::X86_64;
#elif defined(__aarch64__) && !defined(__AARCH64EB__)
inline constexpr Architecture kNativeArchitecture = Architecture::Aarch64;
#else
#error "no system call table for this architecture"
#endif

// The AUDIT_ARCH_ value that the kernel reports in seccomp_data::arch.
std::uint32_t audit_architecture(Architecture architecture);

// What the filter answers.
struct Verdict {
  enum class Kind : std::uint8_t {
    Allow,
    Refuse,       // the call returns `error` and nothing happens
    Notify,       // the call waits for the holder of the filter's listener
    KillProcess,  // the whole process dies of SIGSYS
  };

  Kind kind = Kind::KillProcess;  // the strictest, for a verdict that was not filled in
  std::uint16_t error = 0;        // an errno, with Refuse alone

  static constexpr Verdict allow() { return {Kind::Allow, 0}; }
  static constexpr Verdict refuse(std::uint16_t error) { return {Kind::Refuse, error}; }
  static constexpr Verdict notify() { return {Kind::Notify, 0}; }
  static constexpr Verdict kill_process() { return {Kind::KillProcess, 0}; }

  friend auto operator<=>(const Verdict&, const Verdict&) = default;
};

// The SECCOMP_RET_ value of a verdict.
std::uint32_t seccomp_action(Verdict verdict);

// The bits of an argument that the kernel looks at when it declares it int, unsigned or narrower.
// The upper half of the register is then whatever the caller left there, so a comparison of all 64
// bits lets TIOCSTI | 1 << 32 through (CVE-2019-10063).
inline constexpr std::uint64_t kLow32 = 0xffff'ffff;
// For arguments that the kernel reads whole.
inline constexpr std::uint64_t kAll64 = 0xffff'ffff'ffff'ffff;

// One question about one argument: is `argument & mask` among `values`?
struct ArgumentTest {
  enum class Relation : std::uint8_t { OneOf, NoneOf };

  std::uint8_t argument = 0;  // 0 to 5
  std::uint64_t mask = kLow32;
  Relation relation = Relation::OneOf;
  std::vector<std::uint64_t> values;  // at least one, and none with a bit outside the mask

  friend bool operator==(const ArgumentTest&, const ArgumentTest&) = default;
};

// A verdict for the calls that pass every test.
struct Clause {
  std::vector<ArgumentTest> tests;  // at least one
  Verdict verdict;

  friend bool operator==(const Clause&, const Clause&) = default;
};

// The rule of one system call: the first clause that holds decides, and `otherwise` if none does.
// A rule without clauses is the verdict alone. Prefer those for calls that programs make often: the
// kernel remembers what is always allowed and does not run the filter for it.
struct SyscallRule {
  std::string_view name;  // lives as long as the program
  std::uint32_t number = 0;
  std::vector<Clause> clauses;
  Verdict otherwise;

  friend bool operator==(const SyscallRule&, const SyscallRule&) = default;
};

// The rules of one filter. A value: copy it, change a rule, compile it.
struct FilterRules {
  Architecture architecture = kNativeArchitecture;
  std::vector<SyscallRule> syscalls;  // by number, rising, each once
  // The verdict for every number without a rule. x32 numbers (bit 30) are among them: ENOSYS rather
  // than death, because they are only numbers past the table and so cost no instruction.
  Verdict unknown;
  // The verdict for system calls made through another architecture's entry, such as int 0x80.
  Verdict foreign = Verdict::kill_process();

  // The rule of that name, or null. To change what one call gets:
  //   rules.find("connect")->otherwise = Verdict::notify();
  SyscallRule* find(std::string_view name);
  const SyscallRule* find(std::string_view name) const;

  friend bool operator==(const FilterRules&, const FilterRules&) = default;
};

// The program for seccomp(SECCOMP_SET_MODE_FILTER). Made to be cheap to load: the kernel translates
// every instruction and then walks the program once per system call number, so the numbers are
// joined into ranges of one verdict, the ranges are searched as a tree that is shallow where it is
// wide, and the argument tests come last. A broken rule (see the fields above) is a Bug.
std::vector<sock_filter> compile_filter(const FilterRules& rules);

// For people: one line per system call in the order of their names, and a line for each clause.
std::string to_text(const FilterRules& rules);
std::string to_text(Verdict verdict);

}  // namespace glovebox::plan
