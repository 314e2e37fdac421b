// A YAML or JSON document as a tree in which every node knows where it stands.
//
// One reader for both: JSON is read as the YAML it nearly is. What an attacker, or a careless
// writer, wants here is a document that a reviewer reads as one thing and the compiler as another.
// So refused are: a key given twice, a key that is no text, tags, merge keys ("<<"), a second
// document in the file, and control characters. An alias is taken as a copy of what it names.
//
// Everything is bounded: bytes, depth, and nodes, in which the copies that aliases make count too,
// so a few lines cannot unfold into gigabytes.
#pragma once

#include "base/result.h"
#include "policy/diagnostic.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::policy {

inline constexpr std::size_t kMaxDocumentBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxDocumentDepth = 64;
inline constexpr std::size_t kMaxDocumentNodes = 100'000;

enum class NodeKind : std::uint8_t { Null, Scalar, Sequence, Mapping };

// A scalar in quotes (or a block) is text. One without may be a number or a truth value.
enum class ScalarStyle : std::uint8_t { Plain, Quoted };

// One node of the tree. A mapping has its keys in `keys`, and under the same index the values in
// `items`; a sequence has `items` alone.
struct DocumentNode {
  NodeKind kind = NodeKind::Null;
  ScalarStyle style = ScalarStyle::Plain;
  std::size_t line = 0;
  std::size_t column = 0;
  std::string text;  // of a scalar
  std::vector<DocumentNode> keys;
  std::vector<DocumentNode> items;

  // The value under a key of a mapping, or nullptr.
  const DocumentNode* find(std::string_view key) const;

  // Whether this is a scalar that means text: quoted, or plain and no number, no truth value.
  bool is_text() const;
  // "a number", "a list", ...; for messages.
  std::string_view kind_text() const;
};

Result<DocumentNode, Diagnostics> read_document(std::string_view text, std::string_view file);

// Whether YAML reads these plain characters as something else than text: a number, a truth value,
// nothing. A writer puts such text into quotes.
bool reads_as_other_than_text(std::string_view plain);

}  // namespace glovebox::policy
