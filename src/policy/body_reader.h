// One sandbox body of a document, read into values that remember where they stood.
//
// Reading judges each line by itself. What several bodies come to together (inheritance, conflicts,
// examples) is judged in compile.cpp.
#pragma once

#include "authority/budgets.h"
#include "authority/capability.h"
#include "policy/diagnostic.h"
#include "policy/document.h"
#include "policy/policy.h"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace glovebox::policy {

// A place in a document whose file is known.
struct Position {
  std::size_t line = 0;
  std::size_t column = 0;

  friend bool operator==(const Position&, const Position&) = default;
};

// A value and where it was written.
template <class T>
struct Located {
  T value;
  Position position;
};

// A rule as written. One line of a document may give several: "allow" under fs is one, "deny"
// three.
using SourceRule = Located<std::variant<authority::Rule, PathRule>>;

struct Body {
  std::optional<Located<std::string>> extends;
  std::string description;
  std::vector<SourceRule> rules;
  std::map<authority::BudgetKind, Located<std::uint64_t>> budgets;
  std::optional<std::uint64_t> cpus_milli;
  std::optional<Backend> backend;
  std::optional<WorkspaceMode> workspace;
  std::set<std::string> waived;
  std::vector<Located<authority::Capability>> allows;
  std::vector<Located<authority::Capability>> refuses;
};

enum class BodyRole : std::uint8_t {
  Sandbox,   // an entry of `sandboxes`
  Defaults,  // what every sandbox starts from
  Flat,      // the document itself; `version` and `defaults` beside the body are not looked at
};

// Problems go to the end of `problems`; what could be read is returned all the same.
Body read_body(const DocumentNode& node, BodyRole role, std::string_view file,
               Diagnostics& problems);

// For the compiler's own complaints about a node or position.
Where where_of(std::string_view file, const DocumentNode& node);
Where where_of(std::string_view file, const Position& position);

}  // namespace glovebox::policy
