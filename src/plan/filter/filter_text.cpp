#include "base/result.h"
#include "plan/filter/filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace glovebox::plan {
namespace {

constexpr int kNameWidth = 24;

// "arg1 & 0xf is 0x1, 0x2 or 0x5".
std::string test_text(const ArgumentTest& test) {
  std::string text = fmt::format("arg{}", test.argument);
  if (test.mask == kAll64) {
    text += " (64 bits)";
  } else if (test.mask != kLow32) {
    text += fmt::format(" & {:#x}", test.mask);
  }
  text += test.relation == ArgumentTest::Relation::OneOf ? " is " : " is not ";
  for (std::size_t i = 0; i < test.values.size(); ++i) {
    if (i != 0) text += i + 1 == test.values.size() ? " or " : ", ";
    text += fmt::format("{:#x}", test.values[i]);
  }
  return text;
}

std::string clause_text(const Clause& clause) {
  std::string text = to_text(clause.verdict) + " when ";
  for (std::size_t i = 0; i < clause.tests.size(); ++i) {
    if (i != 0) text += " and ";
    text += test_text(clause.tests[i]);
  }
  return text;
}

void append_line(std::string& text, std::string_view name, std::string_view rest) {
  text += fmt::format("{:<{}} {}\n", name, kNameWidth, rest);
}

void append_rule(std::string& text, const SyscallRule& rule) {
  std::string_view name = rule.name;
  for (const Clause& clause : rule.clauses) {
    append_line(text, name, clause_text(clause));
    name = "";
  }
  append_line(
      text, name,
      rule.clauses.empty() ? to_text(rule.otherwise) : to_text(rule.otherwise) + " otherwise");
}

}  // namespace

std::string to_text(Verdict verdict) {
  switch (verdict.kind) {
    case Verdict::Kind::Allow: return "allow";
    case Verdict::Kind::Refuse: {
      const char* name = strerrorname_np(verdict.error);
      return name != nullptr ? fmt::format("refuse {}", name)
                             : fmt::format("refuse error {}", verdict.error);
    }
    case Verdict::Kind::Notify: return "notify";
    case Verdict::Kind::KillProcess: return "kill process";
  }
  return "unknown";
}

std::string to_text(const FilterRules& rules) {
  std::vector<const SyscallRule*> by_name;
  by_name.reserve(rules.syscalls.size());
  for (const SyscallRule& rule : rules.syscalls) by_name.push_back(&rule);
  std::ranges::sort(by_name, {}, [](const SyscallRule* rule) { return rule->name; });

  std::string text;
  for (const SyscallRule* rule : by_name) append_rule(text, *rule);
  append_line(text, "(any other)", to_text(rules.unknown));
  append_line(text, "(other architectures)", to_text(rules.foreign));
  return text;
}

}  // namespace glovebox::plan
