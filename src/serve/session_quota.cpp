#include "serve/session_quota.h"

#include "serve/bodies/create_body.h"

#include <algorithm>

namespace glovebox::serve {

Result<Room, ApiError> Room::take(const Call& call, std::size_t count) {
  if (count == 0) return Room(nullptr, {}, 0);
  const Service& service = call.service;
  const session::LayerUsage& layers = service.manager.layer_usage();
  if (layers.is_full()) {
    return refuse(507, "RUNTIME_ERROR",
                  "the layers of all sessions hold {} bytes, and {} is the most (upper_max_bytes)",
                  layers.bytes(), layers.most());
  }
  const Identity& who = call.identity;
  if (who.max_sessions == 0) return Room(nullptr, {}, 0);
  const auto mine = service.manager.list({{std::string(kOwnerLabel), who.name}});
  const auto alive = static_cast<std::size_t>(
      std::ranges::count(mine, session::SessionState::Active, &session::SessionInfo::state));
  std::size_t& making = (*service.rooms)[who.name];
  if (alive + making + count > who.max_sessions) {
    return refuse(429, "TOO_MANY_REQUESTS", "{} has {} sessions and is making {}, and may have {}",
                  who.name, alive, making, who.max_sessions);
  }
  making += count;
  return Room(service.rooms, who.name, count);
}

Room::~Room() {
  if (!rooms_) return;
  const auto found = rooms_->find(who_);
  found->second -= count_;
  if (found->second == 0) rooms_->erase(found);
}

}  // namespace glovebox::serve
