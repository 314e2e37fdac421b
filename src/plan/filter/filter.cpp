#include "plan/filter/filter.h"

#include "base/result.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <utility>

#include <linux/audit.h>
#include <linux/seccomp.h>

namespace glovebox::plan {
namespace {

static_assert(std::endian::native == std::endian::little, "low halves of arguments come first");

constexpr std::uint16_t kLoad = BPF_LD | BPF_W | BPF_ABS;
constexpr std::uint16_t kAnd = BPF_ALU | BPF_AND | BPF_K;
constexpr std::uint16_t kJump = BPF_JMP | BPF_JA;
constexpr std::uint16_t kIfEqual = BPF_JMP | BPF_JEQ | BPF_K;
constexpr std::uint16_t kIfAtLeast = BPF_JMP | BPF_JGE | BPF_K;
constexpr std::uint16_t kReturn = BPF_RET | BPF_K;

// A conditional jump holds its distances in 8 bits. Two less, because reaching the second target
// may put one more instruction between the jump and the first.
constexpr std::size_t kReach = 253;

// Where control goes next: code that is already written, or the end with a verdict.
struct Label {
  std::size_t index;  // counted from the end of the program
};
class Target {
 public:
  Target(Label label) : index_(label.index) {}
  Target(Verdict verdict) : verdict_(verdict) {}

  bool is_verdict() const { return index_ == kNoCode; }
  Label label() const { return {index_}; }
  Verdict verdict() const { return verdict_; }

  friend bool operator==(const Target&, const Target&) = default;

 private:
  static constexpr std::size_t kNoCode = static_cast<std::size_t>(-1);
  std::size_t index_ = kNoCode;
  Verdict verdict_;
};

// Writes a program from its last instruction to its first, so that every jump, which in BPF goes
// forward only, leads to code whose place is known.
class BackwardWriter {
 public:
  BackwardWriter() { reversed_.reserve(512); }

  // Runs into what was written last.
  Label plain(std::uint16_t code, std::uint32_t k) { return push({code, 0, 0, k}); }

  Label branch(std::uint16_t code, std::uint32_t k, Target if_true, Target if_false) {
    const Label yes = bring_near(if_true);
    const Label no = bring_near(if_false);
    return push({code, distance(yes), distance(no), k});
  }

  // Makes what was written last the beginning of the target.
  void continue_with(Target target) {
    if (target.is_verdict()) {
      plain(kReturn, seccomp_action(target.verdict()));
    } else if (target.label().index + 1 != reversed_.size()) {
      jump(target.label());
    }
  }

  std::vector<sock_filter> finish() && {
    GLOVEBOX_CHECK(reversed_.size() <= BPF_MAXINSNS);
    std::reverse(reversed_.begin(), reversed_.end());
    return std::move(reversed_);
  }

 private:
  struct Return {
    Verdict verdict;
    Label label;
  };

  Label push(sock_filter instruction) {
    reversed_.push_back(instruction);
    return {reversed_.size() - 1};
  }

  Label jump(Label to) {
    return plain(kJump, static_cast<std::uint32_t>(reversed_.size() - to.index - 1));
  }

  bool near(Label label) const { return reversed_.size() - label.index <= kReach; }

  std::uint8_t distance(Label label) const {
    const std::size_t between = reversed_.size() - label.index - 1;
    GLOVEBOX_CHECK(between <= 255);
    return static_cast<std::uint8_t>(between);
  }

  // What this writes stands behind the jump that asks for it, and nothing falls into it.
  Label bring_near(Target target) {
    if (target.is_verdict()) return bring_return_near(target.verdict());
    return near(target.label()) ? target.label() : jump(target.label());
  }

  Label bring_return_near(Verdict verdict) {
    const auto known = std::ranges::find(returns_, verdict, &Return::verdict);
    if (known == returns_.end()) {
      returns_.push_back({verdict, plain(kReturn, seccomp_action(verdict))});
      return returns_.back().label;
    }
    if (!near(known->label)) known->label = plain(kReturn, seccomp_action(verdict));
    return known->label;
  }

  std::vector<sock_filter> reversed_;
  std::vector<Return> returns_;  // the latest return of each verdict
};

constexpr std::uint32_t low_half(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr std::uint32_t high_half(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

// Consecutive numbers that go to one target. It ends where the next begins.
struct Range {
  std::uint32_t first;
  Target target;
};

void add_range(std::vector<Range>& ranges, std::uint32_t first, const Target& target) {
  if (ranges.empty() || ranges.back().target != target) ranges.push_back({first, target});
}

// A leaf of the search tree: a run of numbers with one target, but for a few single numbers, each
// of which costs one comparison instead of the two that would cut it out of the run.
struct Leaf {
  std::span<const Range> ranges;  // the odd ones are the single numbers
  std::uint32_t first() const { return ranges.front().first; }
};

// More would make the tree smaller still, and the path to the run's own verdict longer.
constexpr std::size_t kSinglesPerLeaf = 2;

std::vector<Leaf> join_leaves(std::span<const Range> ranges) {
  std::vector<Leaf> leaves;
  leaves.reserve(ranges.size());
  while (!ranges.empty()) {
    std::size_t used = 1;
    while (used + 1 < ranges.size() && used < 2 * kSinglesPerLeaf &&
           ranges[used + 1].target == ranges[0].target &&
           ranges[used + 1].first == ranges[used].first + 1) {
      used += 2;
    }
    leaves.push_back({ranges.first(used)});
    ranges = ranges.subspan(used);
  }
  return leaves;
}

Target write_leaf(BackwardWriter& out, const Leaf& leaf) {
  Target next = leaf.ranges.front().target;
  for (std::size_t i = 1; i < leaf.ranges.size(); i += 2) {
    next = out.branch(kIfEqual, leaf.ranges[i].first, leaf.ranges[i].target, next);
  }
  return next;
}

// The search by halves: each step leaves about half of the numbers, not of the leaves, because the
// kernel's walk at load time visits every number once.
Target write_tree(BackwardWriter& out, std::span<const Leaf> leaves) {
  if (leaves.size() == 1) return write_leaf(out, leaves.front());
  const std::uint32_t low = leaves.front().first();
  const std::uint32_t middle = low + (leaves.back().first() - low + 1) / 2;
  const auto above = std::ranges::upper_bound(leaves, middle, {}, &Leaf::first);
  const auto cut = std::clamp<std::ptrdiff_t>(above - leaves.begin(), 1,
                                              static_cast<std::ptrdiff_t>(leaves.size()) - 1);
  const auto split = static_cast<std::size_t>(cut);

  const Target right = write_tree(out, leaves.subspan(split));
  const Target left = write_tree(out, leaves.first(split));
  return out.branch(kIfAtLeast, leaves[split].first(), right, left);
}

// Values that a search finds faster than one comparison after the other.
constexpr std::size_t kManyValues = 8;

// Goes to `yes` for the values and to `no` for all others, by the search that finds system calls.
Target write_value_search(BackwardWriter& out, std::vector<std::uint32_t> values, Target yes,
                          Target no) {
  std::ranges::sort(values);
  std::vector<Range> ranges;
  std::uint64_t next = 0;  // wider than a value: the last may be the greatest
  for (const std::uint64_t value : values) {
    if (value > next) add_range(ranges, static_cast<std::uint32_t>(next), no);
    add_range(ranges, static_cast<std::uint32_t>(value), yes);
    next = value + 1;
  }
  if (next <= kLow32) add_range(ranges, static_cast<std::uint32_t>(next), no);
  return write_tree(out, join_leaves(ranges));
}

// Compares one half of an argument: load, mask, then one jump per value, or a search.
Label write_half_test(BackwardWriter& out, std::size_t offset, std::uint32_t mask,
                      std::span<const std::uint32_t> values, Target yes, Target no) {
  if (values.size() >= kManyValues) {
    out.continue_with(write_value_search(out, {values.begin(), values.end()}, yes, no));
  } else {
    Target next = no;
    for (auto value = values.rbegin(); value != values.rend(); ++value) {
      next = out.branch(kIfEqual, *value, yes, next);
    }
  }
  if (mask != kLow32) out.plain(kAnd, mask);
  return out.plain(kLoad, static_cast<std::uint32_t>(offset));
}

Label write_test(BackwardWriter& out, const ArgumentTest& test, Target yes, Target no) {
  if (test.relation == ArgumentTest::Relation::NoneOf) std::swap(yes, no);
  const std::size_t low = offsetof(seccomp_data, args) + test.argument * sizeof(std::uint64_t);
  const std::size_t high = low + sizeof(std::uint32_t);

  if (high_half(test.mask) == 0) {
    std::vector<std::uint32_t> values;
    values.reserve(test.values.size());
    for (const std::uint64_t value : test.values) values.push_back(low_half(value));
    return write_half_test(out, low, low_half(test.mask), values, yes, no);
  }
  Target next = no;
  for (auto value = test.values.rbegin(); value != test.values.rend(); ++value) {
    const std::uint32_t halves[] = {low_half(*value), high_half(*value)};
    const Label rest =
        write_half_test(out, low, low_half(test.mask), std::span(halves).first(1), yes, next);
    next = write_half_test(out, high, high_half(test.mask), std::span(halves).last(1), rest, next);
  }
  return next.label();
}

Target write_rule(BackwardWriter& out, const SyscallRule& rule) {
  Target next = rule.otherwise;
  for (auto clause = rule.clauses.rbegin(); clause != rule.clauses.rend(); ++clause) {
    const Target failed = next;
    next = clause->verdict;
    for (auto test = clause->tests.rbegin(); test != clause->tests.rend(); ++test) {
      next = write_test(out, *test, next, failed);
    }
  }
  return next;
}

// Rules that say the same share their code, so that neighbours like chmod and fchmod are one range.
class RuleWriter {
 public:
  explicit RuleWriter(BackwardWriter& out) : out_(out) {}

  Target write(const SyscallRule& rule) {
    if (rule.clauses.empty()) return rule.otherwise;
    for (const auto& [known, target] : written_) {
      if (known->otherwise == rule.otherwise && known->clauses == rule.clauses) return target;
    }
    written_.emplace_back(&rule, write_rule(out_, rule));
    return written_.back().second;
  }

 private:
  BackwardWriter& out_;
  std::vector<std::pair<const SyscallRule*, Target>> written_;
};

std::vector<Range> write_rules(BackwardWriter& out, const FilterRules& rules) {
  std::vector<Range> ranges;
  ranges.reserve(rules.syscalls.size());
  RuleWriter writer(out);
  std::uint32_t next = 0;
  for (const SyscallRule& rule : rules.syscalls) {
    if (rule.number != next) add_range(ranges, next, rules.unknown);
    add_range(ranges, rule.number, writer.write(rule));
    next = rule.number + 1;
  }
  add_range(ranges, next, rules.unknown);
  return ranges;
}

void check_rule(const SyscallRule& rule) {
  for (const Clause& clause : rule.clauses) {
    GLOVEBOX_CHECK(!clause.tests.empty());
    for (const ArgumentTest& test : clause.tests) {
      GLOVEBOX_CHECK(test.argument < 6);
      GLOVEBOX_CHECK(!test.values.empty());
      for (const std::uint64_t value : test.values) GLOVEBOX_CHECK((value & ~test.mask) == 0);
    }
  }
}

void check_rules(const FilterRules& rules) {
  for (std::size_t i = 0; i < rules.syscalls.size(); ++i) {
    const std::uint32_t number = rules.syscalls[i].number;
    GLOVEBOX_CHECK(number < 0x4000'0000);  // bit 30 marks x32
    GLOVEBOX_CHECK(i == 0 || number > rules.syscalls[i - 1].number);
    check_rule(rules.syscalls[i]);
  }
}

}  // namespace

std::uint32_t audit_architecture(Architecture architecture) {
  return architecture == Architecture::X86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;
}

std::uint32_t seccomp_action(Verdict verdict) {
  constexpr std::uint16_t kHighestErrno = 4095;  // the kernel takes a greater one for this
  switch (verdict.kind) {
    case Verdict::Kind::Allow: return SECCOMP_RET_ALLOW;
    case Verdict::Kind::Refuse:
      // With errno 0 the caller would believe that the call was made.
      GLOVEBOX_CHECK(verdict.error > 0 && verdict.error <= kHighestErrno);
      return SECCOMP_RET_ERRNO | verdict.error;
    case Verdict::Kind::Notify: return SECCOMP_RET_USER_NOTIF;
    case Verdict::Kind::KillProcess: return SECCOMP_RET_KILL_PROCESS;
  }
  return SECCOMP_RET_KILL_PROCESS;
}

SyscallRule* FilterRules::find(std::string_view name) {
  const auto rule = std::ranges::find(syscalls, name, &SyscallRule::name);
  return rule == syscalls.end() ? nullptr : &*rule;
}

const SyscallRule* FilterRules::find(std::string_view name) const {
  const auto rule = std::ranges::find(syscalls, name, &SyscallRule::name);
  return rule == syscalls.end() ? nullptr : &*rule;
}

std::vector<sock_filter> compile_filter(const FilterRules& rules) {
  check_rules(rules);
  BackwardWriter out;
  const std::vector<Range> ranges = write_rules(out, rules);
  out.continue_with(write_tree(out, join_leaves(ranges)));
  const Label search = out.plain(kLoad, offsetof(seccomp_data, nr));
  out.branch(kIfEqual, audit_architecture(rules.architecture), search, rules.foreign);
  out.plain(kLoad, offsetof(seccomp_data, arch));
  return std::move(out).finish();
}

}  // namespace glovebox::plan
