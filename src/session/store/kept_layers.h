// The layers that ended sessions of this service left behind (workspace/layer/kept.h).
#pragma once

#include "base/result.h"
#include "session/store/session_info.h"
#include "workspace/layer/kept.h"

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

  // `at` is when it was left behind.
  void add(const workspace::LayerFacts& layer, std::int64_t at) {
    layers_.insert_or_assign(layer.id, One{.at = at, .below = layer.below});
  }
  // Takes it out and returns it with what it stands on.
  std::vector<std::string> take(const std::string& layer);
  // Whether it is one of them, or one of them stands on it.
  bool uses(std::string_view layer) const;
  // The one that was left behind first; empty when there is none.
  std::string oldest() const;
  // `now`, or a time just after the newest when the clock was set back.
  std::int64_t time_of_next(std::int64_t now) const;

 private:
  struct One {
    std::int64_t at = 0;
    std::vector<std::string> below{};
  };
  std::map<std::string, One, std::less<>> layers_;
};

// Marks the layers that hold changes, on the disk, and returns them. One whose changes cannot be
// told is kept as well. Blocks.
using OpenLayers = std::vector<std::function<Result<workspace::Layer>()>>;
Result<LeftBehind> keep_changed(const OpenLayers& layers, const workspace::Kept& mark);

}  // namespace glovebox::session
