#include "request/held_layer.h"

#include <sys/file.h>

namespace glovebox::session {

HeldLayer::~HeldLayer() {
  if (!hold_) return;
  if (if_unused_ == IfUnused::Remove) {
    remove();
  } else {
    release();
  }
}

void HeldLayer::release() {
  if (!hold_) return;
  // A launcher that is just being started has a copy of the descriptor, until it executes.
  (void)::flock(hold_.get(), LOCK_UN);
  hold_.reset();
  frozen_.clear();
}

void HeldLayer::remove() {
  release();
  (void)workspace::remove_layer(*root_, layer_.facts().id);
}

Result<void> HeldLayer::hold_frozen() {
  for (const std::string& id : layer_.facts().below) {
    TRY(const workspace::Layer frozen, workspace::open_layer(*root_, id));
    TRY(UniqueFd hold, frozen.hold());
    frozen_.push_back(std::move(hold));
  }
  return {};
}

void HeldLayer::keep(std::vector<UniqueFd>& holds) {
  holds.push_back(std::move(hold_));
  for (UniqueFd& hold : frozen_) holds.push_back(std::move(hold));
  frozen_.clear();
}

}  // namespace glovebox::session
