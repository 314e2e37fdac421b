// What must hold for every document, however hostile. The fuzzer looks for a text that breaks it;
// the corpus is checked as a plain test too.
#pragma once

#include "authority/capability.h"
#include "authority/terms.h"
#include "policy/compile.h"
#include "policy/explain.h"
#include "policy/print.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace glovebox::policy {

inline bool is_one_line(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; });
}

inline bool compiles_to(const std::string& text, const Policy& policy) {
  const auto file = compile(text, "again");
  return file && file->sandboxes.size() == 1 && file->sandboxes.front().policy == policy;
}

inline std::string broken_property_of(const CompiledPolicy& compiled) {
  const Policy& policy = compiled.policy;
  if (!compiles_to(to_yaml(policy), policy)) return "the YAML of a policy is another policy";
  if (!compiles_to(to_json(policy), policy)) return "the JSON of a policy is another policy";
  if (!difference(policy, policy).empty()) return "a policy differs from itself";
  if (!digest(policy)) return "a policy has no digest";
  for (const std::string_view term :
       {"read=/srv/data/a.csv", "write=/", "connect=a.example.com:443", "import=json", "env=HOME",
        "memory=1GiB"}) {
    const auto question = authority::parse_term(term);
    if (!question) return "a question of this test is wrong";
    const Explanation answer = explain(compiled, *question);
    if (answer.effect != decide(policy, *question))
      return "an explanation differs from the verdict";
    if (answer.effect == authority::Effect::Allow && !answer.remedy.empty())
      return "a needless remedy";
  }
  return {};
}

// Empty, or the name of the property that this text breaks.
inline std::string broken_property(std::string_view text) {
  const auto file = compile(text, "fuzz.yaml");
  if (!file) {
    if (file.error().empty()) return "refused without a reason";
    for (const Diagnostic& each : file.error()) {
      if (!is_one_line(to_text(each))) return "a diagnostic of more than one line";
    }
    return {};
  }
  if (file->sandboxes.empty()) return "accepted without a sandbox";
  const std::size_t looked_at = std::min<std::size_t>(file->sandboxes.size(), 4);
  for (std::size_t i = 0; i < looked_at; ++i) {
    if (std::string broken = broken_property_of(file->sandboxes[i]); !broken.empty()) return broken;
  }
  return {};
}

}  // namespace glovebox::policy
