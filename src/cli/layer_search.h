// The layers that a person can name, wherever they lie.
//
//   STATE/layers         of `glovebox run`
//   STATE/serve/layers   of the sessions of the caller's own service
//   STATE/layers         of a service's sessions, when STATE is the state directory of a service
//
// Of a session's layers those can be named that it has left behind (workspace/layer/kept.h). When
// the service is not running, whether it ended or was killed, so can those of all its sessions:
// their boxes are gone, and no service starts while such a layer is being looked at.
#pragma once

#include "base/result.h"
#include "workspace/layer/kept.h"
#include "workspace/layer/layer.h"

#include <optional>
#include <string>
#include <vector>

namespace glovebox::app {

struct FoundLayer {
  workspace::LayerRoot root;
  workspace::Layer layer;
  UniqueFd hold;        // it is not collected meanwhile
  UniqueFd no_service;  // of a session that is over without a mark: its service does not start
};

// By id, or "last": the layer of the last run in a workspace at or above the current directory, or
// what a session there left behind since. Code::NotFound when that run has none, with its name.
Result<FoundLayer> find_layer(const std::string& named);

// The layer that was committed last in a workspace at or above the current directory.
Result<FoundLayer> find_committed_layer();

struct ListedLayer {
  workspace::LayerFacts facts;
  std::optional<workspace::Kept> kept;  // of a session that is over
};
// Newest first.
Result<std::vector<ListedLayer>> list_all_layers();

// Removes it and what is in it, and returns what it was.
Result<workspace::LayerFacts> remove_named_layer(const std::string& id);

}  // namespace glovebox::app
