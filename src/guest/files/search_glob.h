// Patterns over paths: `*`, `?`, `[a-z]`, `[!a]`, `\x`, and `**` across directories.
//
// The time is bounded, whatever the pattern (base/glob.h).
#pragma once

#include "base/glob.h"
#include "base/result.h"

#include <cstdint>
#include <string_view>
#include <utility>

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
  explicit Glob(GlobPattern pattern) : pattern_(std::move(pattern)) {}

  GlobPattern pattern_;
  bool whole_path_ = false;
};

}  // namespace glovebox::guest
