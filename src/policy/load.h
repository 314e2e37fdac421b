// Policies by reference, as a person names them: a template that comes with the product, or a file.
//
//   python            the template of that name, never a file
//   ./job.yaml        a file: the text has a slash or ends with .yaml, .yml or .json
//   job.yaml#fetch    its sandbox `fetch`
//
// The two cannot be confused, so a file put into the current directory does not replace a template.
#pragma once

#include "base/result.h"
#include "policy/compile.h"
#include "policy/diagnostic.h"

#include <string>
#include <string_view>

namespace glovebox::policy {

struct Reference {
  enum class Kind : std::uint8_t { Template, File };
  Kind kind = Kind::Template;
  std::string source;   // the template's name, or the path
  std::string sandbox;  // empty: the only one, or the one named "default"

  friend bool operator==(const Reference&, const Reference&) = default;
};

// The sandbox is what follows the last '#'.
Reference parse_reference(std::string_view text);

// All sandboxes of the document that is referred to. Diagnostics call a template by its file,
// "policies/python.yaml".
Result<PolicyFile, Diagnostics> load_policy_file(const Reference& reference);

// The one sandbox that `text` refers to.
Result<CompiledPolicy, Diagnostics> load_policy(std::string_view text);

}  // namespace glovebox::policy
