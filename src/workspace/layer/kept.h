// A layer that outlives its session: a mark in its directory, ROOT/ID/kept.json.
//
// A session's layers belong to its service. When the session is over and has left changes that
// were not committed, the service marks the layer and lets go of it: from then on `glovebox layers`
// lists it, and its owner shows, commits or removes it. The mark is on the disk before the
// service forgets the session, so that at no moment a layer with work in it is lost.
#pragma once

#include "workspace/layer/layer.h"

#include <optional>

namespace glovebox::workspace {

struct Kept {
  std::string session{};      // its id
  std::string owner{};        // whose the session was, as the service tells its clients apart
  std::int64_t at = 0;        // ns since 1970
  std::uint64_t changes = 0;  // 0: they could not be counted

  friend bool operator==(const Kept&, const Kept&) = default;
};

Result<void> mark_kept(const Layer& layer, const Kept& kept);
// Nothing without a mark.
Result<std::optional<Kept>> read_kept(const Layer& layer);

// Ids of marked layers that are older than that, or more than so many of one owner; those that were
// left behind first come first. Age is told as by collect_layers().
Result<std::vector<std::string>> expired_kept(const LayerRoot& root, const Retention& keep);

}  // namespace glovebox::workspace
