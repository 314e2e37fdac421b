// The layers that ended sessions of this service left behind (workspace/kept.h).
#pragma once

#include "base/result.h"
#include "session/info.h"
#include "workspace/kept.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::session {

// At most so many of one owner, and none older.
inline constexpr workspace::Retention kKeptRetention{std::chrono::hours(24 * 14), 50};

class KeptLayers {
 public:
  // Those with a mark, of all owners. Blocks.
  Result<void> load(const workspace::LayerRoot& root);

  void add(const workspace::LayerFacts& layer) { below_.insert_or_assign(layer.id, layer.below); }
  // Takes it out and returns it with what it stands on.
  std::vector<std::string> take(const std::string& layer);
  // Whether it is one of them, or one of them stands on it.
  bool uses(std::string_view layer) const;
  // The one that was made first; empty when there is none.
  std::string oldest() const { return below_.empty() ? "" : below_.begin()->first; }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> below_;  // ids sort by time
};

// Marks the layers that hold changes, on the disk, and returns them. One whose changes cannot be
// told is kept as well. Blocks.
using OpenLayers = std::vector<std::function<Result<workspace::Layer>()>>;
Result<LeftBehind> keep_changed(const OpenLayers& layers, const workspace::Kept& mark);

}  // namespace glovebox::session
