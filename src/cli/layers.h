// The layers of the command line: where they are kept, and what `run` does with one.
#pragma once

#include "base/result.h"
#include "plan/spec.h"
#include "workspace/diff/change.h"
#include "workspace/layer/layer_quota.h"

#include <string>
#include <string_view>
#include <vector>

namespace glovebox::app {

// $GLOVEBOX_STATE, else for root /var/lib/glovebox, else $XDG_STATE_HOME/glovebox or
// ~/.local/state/glovebox. Refused when none of them is known.
Result<std::string> state_directory();
// Whether a service has its sessions there. Then it decides which layers are too many.
bool is_state_of_service(const std::string& directory);
Result<workspace::LayerRoot> open_layers();
// $GLOVEBOX_SECRETS, else `secrets` in the state directory.
Result<std::string> secrets_directory();

// The layer of one run, held for as long as this lives.
class RunLayer {
 public:
  // A fresh layer over a workspace, which is then planned with it. From here on it is the last of
  // that workspace, as made by this command.
  static Result<RunLayer> make(const workspace::QuotaChoice& quota, plan::Workspace& over,
                               const std::vector<std::string>& command);

  RunLayer(RunLayer&&) = default;
  RunLayer& operator=(RunLayer&&) = default;
  ~RunLayer() {
    if (hold_ && !is_used_) discard();
  }

  // The box is there. Until then nothing of the layer is left behind.
  void keep() { is_used_ = true; }

  // Takes what the box handed out for the workspace at that path inside, if it is this one's.
  bool use_memory(const std::string& inside, UniqueFd& upper);
  // Whether the budget of a layer that has one is used up.
  bool is_full() const;

  // After the run: a summary of what changed, for a person, or nothing; a layer without changes is
  // removed, and is no `last` (last_run.h).
  Result<std::string> finish();
  const std::string& origin() const { return layer_.facts().origin; }

 private:
  RunLayer(workspace::LayerRoot root, workspace::Layer layer, UniqueFd hold, std::string inside)
      : root_(std::move(root)),
        layer_(std::move(layer)),
        hold_(std::move(hold)),
        inside_(std::move(inside)) {}

  Result<std::vector<workspace::Change>> changes();
  void discard();

  workspace::LayerRoot root_;
  workspace::Layer layer_;
  UniqueFd hold_;
  std::string inside_;
  bool is_used_ = false;
};

// One for each workspace that is layered, bounded by the disk budget if there is one.
Result<std::vector<RunLayer>> make_layers(plan::SandboxSpec& spec);

// For `explain`, which makes nothing: a layer that stands for the one a run would get.
Result<void> plan_with_some_layer(plan::SandboxSpec& spec);

}  // namespace glovebox::app
