#include "session/store/kept_layers.h"

#include "workspace/diff/diff.h"

#include <algorithm>

namespace glovebox::session {
namespace {

Result<std::uint64_t> count_changes(const workspace::Layer& layer) {
  TRY(const workspace::Uppers uppers, layer.open_uppers());
  TRY(const UniqueFd original, layer.open_original());
  TRY(const std::vector<workspace::Change> changes, workspace::diff(layer, uppers, original));
  return changes.size();
}

}  // namespace

Result<void> KeptLayers::load(const workspace::LayerRoot& root) {
  TRY(const auto layers, workspace::list_layers(root));
  for (const workspace::LayerFacts& facts : layers) {
    const auto layer = workspace::open_layer(root, facts.id);
    if (!layer) continue;
    const auto kept = workspace::read_kept(*layer);
    // A mark that cannot be read is a mark.
    if (!kept || *kept) add(facts, kept ? (*kept)->at : facts.created);
  }
  return {};
}

std::vector<std::string> KeptLayers::take(const std::string& layer) {
  const auto found = layers_.find(layer);
  if (found == layers_.end()) return {};
  std::vector<std::string> ids{layer};
  const std::vector<std::string>& below = found->second.below;
  ids.insert(ids.end(), below.begin(), below.end());
  layers_.erase(found);
  return ids;
}

std::string KeptLayers::oldest() const {
  const auto found =
      std::ranges::min_element(layers_, {}, [](const auto& one) { return one.second.at; });
  return found == layers_.end() ? "" : found->first;
}

std::int64_t KeptLayers::time_of_next(std::int64_t now) const {
  for (const auto& [id, one] : layers_) now = std::max(now, one.at + 1);
  return now;
}

bool KeptLayers::uses(std::string_view layer) const {
  return layers_.contains(layer) || std::ranges::any_of(layers_, [&](const auto& one) {
           const std::vector<std::string>& below = one.second.below;
           return std::ranges::find(below, layer) != below.end();
         });
}

Result<LeftBehind> keep_changed(const OpenLayers& layers, const workspace::Kept& mark) {
  LeftBehind kept;
  for (const auto& open : layers) {
    const auto layer = open();
    if (!layer && layer.error().code == Code::NotFound) continue;  // it was lost before
    if (!layer) return unexpected(layer.error());
    const auto changes = count_changes(*layer);
    if (changes && *changes == 0) continue;
    workspace::Kept made = mark;
    made.changes = changes.value_or(0);
    TRY_VOID(workspace::mark_kept(*layer, made));
    kept.push_back({layer->facts(), made.changes});
  }
  return kept;
}

}  // namespace glovebox::session
