// Paths with wildcards, as a policy document may name them.
//
//   *     any run of characters within one component, also none
//   ?     one character within one component
//   **    as a whole component: any number of components, also none
//
// A pattern that matches a path speaks for that path and all beneath it, as a plain path does. So
// "/srv/data/**" is the tree /srv/data and no pattern at all, and a "/**" at the end of any pattern
// adds nothing; both are dropped when a document is read.
//
// A wildcard matches a leading dot too: "deny /home/*" that spared /home/.ssh would be a trap.
// Forms that other tools know and this one does not ([a-z], {a,b}, ~, $NAME) are refused: taken by
// the letter, a denial that uses one would deny nothing.
#pragma once

#include "authority/paths.h"
#include "base/glob.h"
#include "base/result.h"

#include <compare>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

namespace glovebox::policy {

class PathPattern {
 public:
  static constexpr std::size_t kMaxComponents = 63;  // of a pattern with wildcards

  // A pattern in its one spelling. A path without wildcards is one too: it matches itself.
  static Result<PathPattern> parse(std::string_view text);
  // The path taken by the letter, whatever characters it has.
  static PathPattern exactly(const authority::AbsolutePath& path);

  const std::string& text() const { return text_; }
  const std::vector<std::string>& components() const { return components_; }
  bool has_wildcards() const { return has_wildcards_; }

  // Whether the pattern matches the whole path.
  bool matches(const authority::AbsolutePath& path) const;
  // Whether it matches the path or one that the path lies beneath.
  bool matches_at_or_above(const authority::AbsolutePath& path) const;

  friend bool operator==(const PathPattern& a, const PathPattern& b) { return (a <=> b) == 0; }
  friend std::strong_ordering operator<=>(const PathPattern& a, const PathPattern& b) {
    return std::tie(a.text_, a.has_wildcards_) <=> std::tie(b.text_, b.has_wildcards_);
  }

 private:
  PathPattern(std::vector<std::string> components, bool has_wildcards);

  GlobPath::Matches match(const authority::AbsolutePath& path) const;

  std::string text_;
  std::vector<std::string> components_;
  bool has_wildcards_;
  GlobPath path_;  // of a pattern with wildcards
};

// Whether one component of a pattern ("*.csv", not "**") matches one name. A "?" takes a whole
// UTF-8 character; of bytes that are not UTF-8 it takes one.
bool component_matches(std::string_view pattern, std::string_view name);
bool has_wildcard(std::string_view component);

// What a document says about paths: a plain one where that is all it means, or a pattern.
using PathOrPattern = std::variant<authority::AbsolutePath, PathPattern>;
Result<PathOrPattern> parse_path_or_pattern(std::string_view text);

}  // namespace glovebox::policy
