// Wildcards against a disk: what a policy with patterns means when a box starts.
//
// An AuthoritySet has plain paths only, because only those can be compared, attenuated and handed
// to the kernel. So a pattern is replaced, once, by the paths that match it at that moment. A file
// made later is governed by the rules on the directories above it, whatever its name.
//
// Symlinks are neither followed nor matched: where one leads is up to every process that may write
// there, and its target has rules of its own. Between this and the moment the box is built a path
// can still be replaced by a symlink, so the code that opens the paths must refuse symlinks too
// (RESOLVE_NO_SYMLINKS).
//
// Every bound that is reached refuses; nothing is cut.
#pragma once

#include "authority/authority_set.h"
#include "base/result.h"
#include "policy/policy.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::policy {

inline constexpr std::size_t kMaxEntriesLookedAt = 100'000;
inline constexpr std::size_t kMaxMatches = 4'096;

enum class EntryKind : std::uint8_t { Directory, Symlink, Other };

struct DirectoryEntry {
  std::string name;  // as the disk has it: any bytes but NUL and '/'
  EntryKind kind;

  friend bool operator==(const DirectoryEntry&, const DirectoryEntry&) = default;
};

// How expand_patterns() sees the disk. Paths are absolute, of bytes, without "." and "..", and no
// component of them may be followed if it is a symlink.
class Lister {
 public:
  virtual ~Lister() = default;

  // What is there. Nothing: it does not exist. A symlink on the way is an error, since a rule on
  // the path would not be about what the writer saw; as the last component it is
  // EntryKind::Symlink.
  virtual Result<std::optional<EntryKind>> look_at(const std::string& path) = 0;
  // All entries but "." and "..", in any order; more than `limit` is Code::Exhausted. A directory
  // that is gone has none; one that may not be read is an error.
  virtual Result<std::vector<DirectoryEntry>> list(const std::string& directory,
                                                   std::size_t limit) = 0;
};

// The policy's authority with its patterns replaced by what they match. Refused: a pattern that
// leads through a symlink, a directory that cannot be read (a denial would miss what is in it), a
// match whose name no rule can express, and more than the bounds above.
Result<authority::AuthoritySet> expand_patterns(const Policy& policy, Lister& lister);

}  // namespace glovebox::policy
