// What a deny glob of a client's sandbox matches, as Codex reads one.
//
// Codex hands the part behind the last directory without wildcards to ripgrep, so the language is
// that of .gitignore and not that of policy documents (policy/path_pattern.h):
//
//   *.env          without a slash: at every depth below the directory
//   a*/b, **/b     with one: from the directory on; "**" is any number of components
//   dir/**         everything in a directory
//   ? [a-z] [!x]   one character; {a,b} either; a backslash takes the next character by the letter
//
// Here a directory that matches is denied with all that is in it (ripgrep lists files alone, so
// Codex denies nothing for "**/secrets"), and "?" takes a byte, as in Codex, or a whole character.
// tests/mcp/codex_glob_test.py holds this against the real Codex.
#pragma once

#include "base/glob.h"
#include "base/result.h"
#include "policy/expand.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::mcp {

class DenyGlob {
 public:
  static constexpr std::size_t kMaxAlternatives = 64;  // that braces may stand for
  static constexpr std::size_t kMaxComponents = 63;

  // An absolute pattern. Where it begins with one of `places` (the session's directory, entries of
  // the sandbox), that part is taken by the letter, whatever characters it has: clients put it in
  // front of what a person wrote.
  static Result<DenyGlob> parse(std::string_view pattern, std::span<const std::string> places);

  // The directory below which something may match; without wildcards, the denied path itself.
  const std::string& root() const { return root_; }
  bool has_wildcards() const { return !alternatives_.empty(); }
  // Braces before the first wildcard are taken by the letter, by Codex too. Where no such path is
  // there, what was meant cannot be known.
  bool has_braces_in_root() const { return root_.find('{') != std::string::npos; }

  // Whether the entry itself matches. `below` is relative to root(); empty: root() itself.
  bool matches(std::string_view below, policy::EntryKind kind) const;

 private:
  // Names are compared twice, as bytes and as characters.
  struct Alternative {
    GlobPath path;
    bool is_contents = false;  // ended in "/**": what lies in a directory that matches
  };

  static Result<Alternative> read_alternative(std::string_view text, GlobUnit unit);
  static bool matches_one(const Alternative& alternative, std::string_view below,
                          policy::EntryKind kind);

  std::string root_;
  std::vector<Alternative> alternatives_;
};

inline constexpr std::size_t kMaxGlobEntries = 1'000'000;  // looked at, for one pattern
inline constexpr std::size_t kMaxGlobMatches = 2'000;      // each is a mount

// The paths below the glob's root, with its links resolved, that must be covered: whole directories
// where everything in one is denied. A directory that is or holds one of `kept` stays, and what is
// in it is covered one by one: a grant there holds for what the box makes itself. Links are neither
// followed nor matched. Every bound that is reached refuses.
Result<std::vector<std::string>> find_matches(const DenyGlob& glob,
                                              const std::string& resolved_root,
                                              std::span<const std::string> kept,
                                              policy::Lister& lister);

}  // namespace glovebox::mcp
