// The matcher behind every kind of wildcard: of policies, of the commit gate and .gitignore, of
// file searches in a box, of a client's deny globs, of names of variables.
//
//   *       any run of characters but '/', also none
//   ?       one character but '/'
//   [a-z]   one of these, [!a-z] one of the others, never '/'
//   **      in a GlobPath, as a whole name: any number of names, also none
//
// A leading dot is a letter like others. Time is bounded by the product of the lengths, whatever
// either holds: all possibilities are followed at once, and none is tried again. What a pattern is
// applied to, and which spellings are refused, is its users' matter.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace glovebox {

// What is a wildcard. The languages are older than this code and are those of other tools, or are
// narrow on purpose.
enum class GlobDialect : std::uint8_t {
  Stars,    // '*' and '?' alone: in a policy, a form that not every reader knows would be a trap
  Classes,  // and "[a-z]"; one without its ']' is refused. No escapes, so that paths need none
  // And "[^a]", a backslash before any letter, also in a class, and "**" that takes '/' as well:
  // for a pattern over a whole path, as in a shell with globstar.
  Search,
  // And "[^a]", a backslash outside of classes; '[' without ']' is a letter, a range that ends
  // before it begins is refused: as ripgrep reads .gitignore.
  Ripgrep,
};
enum class GlobUnit : std::uint8_t { Byte, Character };  // what '?' takes; not UTF-8: a byte
enum class GlobCase : std::uint8_t { Exact, Folded };    // Folded: ASCII letters compare equal

struct GlobSyntax {
  GlobDialect dialect = GlobDialect::Classes;
  GlobUnit unit = GlobUnit::Byte;
  GlobCase letters = GlobCase::Exact;
};

// A pattern over one string: a name, or in the dialect Search a path.
class GlobPattern {
 public:
  static Result<GlobPattern> parse(std::string_view pattern, GlobSyntax syntax);

  bool matches(std::string_view text) const;

  friend bool operator==(const GlobPattern&, const GlobPattern&) = default;

 private:
  struct Token {
    enum class Kind : std::uint8_t {
      Letter,
      OneOf,
      NoneOf,       // of no range: any
      Run,          // any number of characters but '/'
      Everything,   // any number of characters
      Directories,  // nothing, or anything that ends in '/'
    };
    struct Range {
      char32_t first;
      char32_t last;
      friend bool operator==(const Range&, const Range&) = default;
    };
    Kind kind = Kind::Letter;
    char32_t letter = 0;
    std::vector<Range> ranges{};
    friend bool operator==(const Token&, const Token&) = default;
  };
  class Reader;

  explicit GlobPattern(GlobSyntax syntax) : syntax_(syntax) {}
  bool takes(const Token& token, char32_t unit) const;
  bool is_in(const Token& token, char32_t unit) const;
  enum class At : std::uint8_t { Component, Within };
  // Marks a place in the pattern, and those that are reached from it without taking anything.
  void reach(std::vector<char>& places, std::size_t place, At at) const;

  GlobSyntax syntax_;
  std::vector<Token> tokens_;
};

// A pattern over the names of a path.
class GlobPath {
 public:
  GlobPath() = default;
  static Result<GlobPath> parse(std::span<const std::string_view> parts, GlobSyntax syntax);

  // Whether the pattern matches the whole path, and whether any beginning of it, that of no names
  // included.
  struct Matches {
    bool whole = false;
    bool beginning = false;
  };
  Matches match(std::span<const std::string_view> names) const;

  // "**" is one of them, also where several follow each other.
  std::size_t size() const { return parts_.size(); }
  // Part `i` alone; "**" matches every name.
  bool part_matches(std::size_t i, std::string_view name) const {
    return !parts_[i] || parts_[i]->matches(name);
  }

  friend bool operator==(const GlobPath&, const GlobPath&) = default;

 private:
  std::vector<std::optional<GlobPattern>> parts_;  // nothing: "**"
};

// The names between the slashes, without empty ones and ".".
std::vector<std::string_view> split_names(std::string_view path);

}  // namespace glovebox
