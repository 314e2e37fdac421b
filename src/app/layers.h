// The layers of the command line: where they are kept, and what `run` does with one.
#pragma once

#include "base/result.h"
#include "plan/spec.h"
#include "workspace/layer.h"

#include <string>
#include <string_view>
#include <vector>

namespace glovebox::app {

// $GLOVEBOX_STATE, else for root /var/lib/glovebox, else $XDG_STATE_HOME/glovebox or
// ~/.local/state/glovebox. Refused when none of them is known.
Result<std::string> state_directory();
Result<workspace::LayerRoot> open_layers();
// $GLOVEBOX_SECRETS, else `secrets` in the state directory.
Result<std::string> secrets_directory();

// The layer of one run, held for as long as this lives.
class RunLayer {
 public:
  // A fresh layer over a workspace, which is then planned with it.
  static Result<RunLayer> make(plan::Workspace& over);

  RunLayer(RunLayer&&) = default;
  RunLayer& operator=(RunLayer&&) = default;
  ~RunLayer() {
    if (hold_ && !is_used_) discard();
  }

  // The box is there. Until then nothing of the layer is left behind.
  void keep() { is_used_ = true; }

  // After the run: a summary of what changed, for a person, or nothing; a layer without changes is
  // removed. `name` is what the person can call the layer by.
  Result<std::string> finish(std::string_view name);
  const std::string& id() const { return layer_.facts().id; }

 private:
  RunLayer(workspace::LayerRoot root, workspace::Layer layer, UniqueFd hold)
      : root_(std::move(root)), layer_(std::move(layer)), hold_(std::move(hold)) {}

  void discard();

  workspace::LayerRoot root_;
  workspace::Layer layer_;
  UniqueFd hold_;
  bool is_used_ = false;
};

// One for each workspace that is layered.
Result<std::vector<RunLayer>> make_layers(plan::SandboxSpec& spec);

// For `explain`, which makes nothing: a layer that stands for the one a run would get.
void plan_with_some_layer(plan::SandboxSpec& spec);

}  // namespace glovebox::app
