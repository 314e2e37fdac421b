// What the tests of the filter share: the rules read word for word, calls that come close to what a
// rule looks for, and what the default filter answers.
#pragma once

#include "plan/filter/filter.h"
#include "plan/filter/filter_evaluate_test_support.h"
#include "plan/filter/filter_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

namespace glovebox::plan {

using Arguments = std::array<std::uint64_t, 6>;
using Program = std::vector<sock_filter>;

inline constexpr std::uint64_t kHighBit = std::uint64_t{1} << 32;
inline constexpr Architecture kArchitectures[] = {Architecture::X86_64, Architecture::Aarch64};

inline seccomp_data call_data(Architecture architecture, std::uint32_t number,
                              const Arguments& arguments) {
  seccomp_data data = {};
  data.nr = static_cast<int>(number);
  data.arch = audit_architecture(architecture);
  std::copy(arguments.begin(), arguments.end(), data.args);
  return data;
}

inline bool passes(const ArgumentTest& test, const seccomp_data& data) {
  const bool found = std::ranges::count(test.values, data.args[test.argument] & test.mask) != 0;
  return found == (test.relation == ArgumentTest::Relation::OneOf);
}

// What the rules say, word for word.
inline Verdict read_rules(const FilterRules& rules, const seccomp_data& data) {
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
inline void add_candidates(const ArgumentTest& test, std::set<std::uint64_t>& candidates) {
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
inline std::vector<Arguments> sample_arguments(const SyscallRule& rule) {
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

inline std::vector<std::uint32_t> all_numbers() {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t number = 0; number < 1024; ++number) {
    numbers.insert(numbers.end(), {number, number | 0x4000'0000, number | 0x8000'0000});
  }
  numbers.insert(numbers.end(), {0x3fff'ffff, 0x7fff'ffff, 0xffff'fffe, 0xffff'ffff});
  return numbers;
}

inline void expect_agreement(const FilterRules& rules) {
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

inline std::uint32_t default_answer(std::string_view name, const Arguments& arguments) {
  static const FilterRules rules = default_filter_rules(Architecture::X86_64);
  static const Program program = compile_filter(rules);
  const SyscallRule* rule = rules.find(name);
  if (rule == nullptr) return 0;
  return evaluate_filter(program, call_data(Architecture::X86_64, rule->number, arguments));
}

inline constexpr std::uint32_t kAllowed = SECCOMP_RET_ALLOW;
inline constexpr std::uint32_t refused(int error) {
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
}

// Many small ranges and many checks: jumps must be led over code that 8 bits cannot span.
inline FilterRules scattered_rules(std::uint32_t first) {
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

}  // namespace glovebox::plan
