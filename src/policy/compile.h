// Policy documents to policies. Pure: no disk, no clock, no environment, so the same text gives the
// same policies on every host.
//
// A document holds sandboxes, each with a body, or is one body itself:
//
//   version: 1                      version: 1
//   defaults: {imports: [math]}     fs: {read: [/srv/data]}
//   sandboxes:                      memory: 256MiB
//     base: {fs: {read: [/srv]}}
//     job: {extends: base}
//
// A body is the union of `defaults`, of what it extends, and of its own lines. Rules add up; of a
// limit or a setting the nearest counts: its own, else the parent's, else the defaults'. Everything
// wrong is reported at once, and one bad sandbox refuses the whole document.
#pragma once

#include "base/result.h"
#include "policy/body_reader.h"
#include "policy/diagnostic.h"
#include "policy/policy.h"

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::policy {

inline constexpr std::size_t kMaxSandboxes = 1'000;
// Rules of all sandboxes together, inherited ones counted each time: what a short document with a
// long chain of parents could otherwise multiply.
inline constexpr std::size_t kMaxRulesOfDocument = 50'000;

// One sandbox of a document: what it means, and the lines it came from, for explanations.
struct CompiledPolicy {
  Policy policy;
  std::string file;
  std::vector<SourceRule> sources;
  std::map<authority::BudgetKind, Position> budget_sources;
};

struct PolicyFile {
  std::string file;
  // In the order of the document; a flat one has a single sandbox without a name.
  std::vector<CompiledPolicy> sandboxes;

  const CompiledPolicy* find(std::string_view name) const;
  std::vector<std::string_view> names() const;
};

Result<PolicyFile, Diagnostics> compile(std::string_view text, std::string_view file);

// The sandbox that a reference without a name means: the only one, or the one named "default".
// With a name: that one. The diagnostics list what there is.
Result<CompiledPolicy, Diagnostics> select_sandbox(const PolicyFile& file, std::string_view name);

}  // namespace glovebox::policy
