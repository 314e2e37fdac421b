// The layers of the command line: where they are kept, and what `run` does with one.
#pragma once

#include "base/result.h"
#include "request/held_layer.h"
#include "session/prepare/prepare.h"
#include "workspace/diff/change.h"

#include <memory>
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

// Prepares boxes for the command line: policies may be files, variables have the caller's values,
// and the state directory and the store of secrets are in no box. They usually lie in the caller's
// home, which is often handed in as a whole.
Result<std::unique_ptr<session::Preparer>> open_preparer();

// The layer of one run.
class RunLayer {
 public:
  // From here on it is the last one of its workspace, as made by this command.
  static Result<RunLayer> begin(session::HeldLayer held, const std::vector<std::string>& command);

  // The box is there. Until then nothing of the layer is left behind.
  void keep() { held_.leave(); }

  // Takes what the box handed out for the workspace at that path inside, if it is this one's.
  bool use_memory(const std::string& inside, UniqueFd& upper);
  // Whether the budget of a layer that has one is used up.
  bool is_full() const;

  // After the run: a summary of what changed, for a person, or nothing; a layer without changes is
  // removed, and is no `last` (last_run.h).
  Result<std::string> finish();
  const std::string& origin() const { return held_.layer().facts().origin; }

 private:
  explicit RunLayer(session::HeldLayer held) : held_(std::move(held)) {}

  Result<std::vector<workspace::Change>> changes() const;

  session::HeldLayer held_;
};

}  // namespace glovebox::app
