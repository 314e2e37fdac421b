// The disk as expand_patterns() sees it, by openat2(2).
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "policy/expand.h"

#include <optional>
#include <string>
#include <vector>

namespace glovebox::policy {

// Every path is opened beneath "/" with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, so no entry that
// another process turns into a symlink meanwhile leads the search elsewhere. Needs Linux 5.6.
class DiskLister final : public Lister {
 public:
  static Result<DiskLister> open();

  Result<std::optional<EntryKind>> look_at(const std::string& path) override;
  Result<std::vector<DirectoryEntry>> list(const std::string& directory,
                                           std::size_t limit) override;

 private:
  explicit DiskLister(UniqueFd root) : root_(std::move(root)) {}

  UniqueFd root_;
};

}  // namespace glovebox::policy
