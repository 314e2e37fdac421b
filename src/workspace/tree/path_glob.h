// Patterns for paths: `*` and `?` within a name, `[a-z]` classes, `**` for any number of names.
//
// Matching works by name and knows no escape character; its time is bounded (base/glob.h).
#pragma once

#include "base/glob.h"
#include "base/result.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace glovebox::workspace {

using Case = GlobCase;

class Glob {
 public:
  // Refuses an empty pattern, one with empty names ("a//b"), "." or "..", and an open class.
  static Result<Glob> parse(std::string_view pattern, Case letters = Case::Exact);

  // The whole path: "src/*.c" matches "src/a.c" and not "src/x/a.c".
  bool matches(std::string_view path) const;

  // As a person names things on a command line: also everything below what the pattern matches,
  // and a pattern without "/" matches a name at any depth.
  bool selects(std::string_view path) const;

  const std::string& pattern() const { return pattern_; }
  // Whether a path below a directory of that name could match because of it: ".claude" for
  // "**/.claude/**", and neither "src" nor "settings.json" for "**/.claude/settings.json".
  bool leads_through(std::string_view name) const;
  // A name that every matching path has, in small letters where letters are folded; empty when
  // there is none.
  std::string needed_name() const;
  friend bool operator==(const Glob&, const Glob&) = default;

 private:
  friend class GlobSet;
  bool matches_names(const std::vector<std::string_view>& names) const;

  std::string pattern_;
  std::vector<std::string> parts_;
  GlobPath path_;
  Case letters_ = Case::Exact;
};

// Many patterns of which any may match. Most have a plain name in them, by which they are found: a
// path costs as much as the patterns that have one of its names.
class GlobSet {
 public:
  void add(Glob glob);
  bool matches(std::string_view path) const;

  const std::vector<Glob>& globs() const { return globs_; }
  bool empty() const { return globs_.empty(); }

 private:
  std::vector<Glob> globs_;
  std::unordered_map<std::string, std::vector<std::size_t>> by_name_;
  std::vector<std::size_t> without_name_;
};

Result<std::vector<Glob>> parse_globs(const std::vector<std::string>& patterns,
                                      Case letters = Case::Exact);

}  // namespace glovebox::workspace
