// A layer that was made or opened for one box, and is held for it.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "workspace/layer/layer.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace glovebox::session {

// What becomes of a layer that was prepared for a box when there is no such box after all.
enum class IfUnused : std::uint8_t { Remove, Leave };

// A layer for a box, held, with the layers that it stands on. One that is not kept is removed when
// this goes, if it was made for the box.
class HeldLayer {
 public:
  // `inside`: the path of its workspace in the box.
  HeldLayer(std::shared_ptr<const workspace::LayerRoot> root, workspace::Layer layer, UniqueFd hold,
            IfUnused if_unused, std::string inside)
      : root_(std::move(root)),
        layer_(std::move(layer)),
        hold_(std::move(hold)),
        if_unused_(if_unused),
        inside_(std::move(inside)) {}
  HeldLayer(HeldLayer&&) = default;
  HeldLayer& operator=(HeldLayer&&) = delete;
  ~HeldLayer();

  const workspace::LayerRoot& root() const { return *root_; }
  const workspace::Layer& layer() const { return layer_; }
  workspace::Layer& layer() { return layer_; }
  const std::string& inside() const { return inside_; }

  // Holds the layers below, too: while one is held it is not removed.
  Result<void> hold_frozen();
  // There is a box: from here on the layer stays, whatever becomes of this.
  void leave() { if_unused_ = IfUnused::Leave; }
  // The same, and the holds go to the session that lives longer than this.
  void keep(std::vector<UniqueFd>& holds);
  // Gives up the holds.
  void release();
  // The same, and removes the layer. What cannot be removed now is collected later.
  void remove();

 private:
  std::shared_ptr<const workspace::LayerRoot> root_;
  workspace::Layer layer_;
  UniqueFd hold_;
  std::vector<UniqueFd> frozen_;
  IfUnused if_unused_;
  std::string inside_;
};

}  // namespace glovebox::session
