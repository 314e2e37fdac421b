// User namespaces whose only use is to say how a mount's owner is shown (mount_setattr(2), IDMAP).
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <cstdint>
#include <map>
#include <utility>

namespace glovebox::launch {

// Maps owners of trees to one box's uid. One namespace per distinct owner, made when first asked
// for.
class IdMaps {
 public:
  explicit IdMaps(std::uint32_t box_uid) : box_uid_(box_uid) {}

  // A namespace in which `owner` and `group` of the disk are the box's uid and gid.
  Result<BorrowedFd> from(std::uint32_t owner, std::uint32_t group);

 private:
  std::uint32_t box_uid_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, UniqueFd> known_;
};

}  // namespace glovebox::launch
