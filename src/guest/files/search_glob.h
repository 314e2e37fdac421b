// Patterns over paths: `*`, `?`, `[a-z]`, `[!a]`, `\x`, and `**` across directories.
//
// Matching takes time proportional to pattern times path, whatever the pattern: it walks all
// possibilities at once and never goes back.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::guest {

class Glob {
 public:
  enum class Case : std::uint8_t { Sensitive, Ignored };

  // An open bracket or a backslash at the end is Code::Invalid.
  static Result<Glob> parse(std::string_view pattern, Case letters);

  // `path` is relative, with single slashes. A pattern without a slash is about the last component
  // alone, so that "*.txt" finds text files at any depth.
  bool matches(std::string_view path) const;

 private:
  struct Token {
    enum class Kind : std::uint8_t {
      One,          // a character of a set
      Run,          // any number of characters but slashes
      Everything,   // any number of characters
      Directories,  // nothing, or anything that ends in a slash
    } kind = Kind::One;
    std::string ranges;  // pairs of first and last
    bool negated = false;
  };

  explicit Glob(Case letters) : case_(letters) {}
  bool takes(const Token& token, char c) const;
  // All places that are reached from those without taking a character.
  void settle(std::vector<char>& places, bool at_component) const;

  Case case_;
  bool whole_path_ = false;
  std::vector<Token> tokens_;
};

}  // namespace glovebox::guest
