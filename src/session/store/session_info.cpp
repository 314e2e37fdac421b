#include "session/store/session_info.h"

#include "session/store/session_event.h"

#include <array>

namespace glovebox::session {
namespace {

constexpr std::array<std::string_view, 2> kStates{"active", "dead"};
constexpr std::array<std::string_view, 8> kCauses{"deleted",       "idle",        "limit",
                                                  "agent_gone",    "agent_broke", "launcher_gone",
                                                  "service_ended", "network"};
constexpr std::array<std::string_view, 13> kEvents{
    "created", "run_started", "run_ended", "denied", "ended",        "deleted",       "committed",
    "undone",  "narrowed",    "recycled",  "forked", "checkpointed", "layer_given_up"};

}  // namespace

std::string_view to_text(SessionState state) { return kStates.at(static_cast<std::size_t>(state)); }
std::string_view to_text(EndCause cause) { return kCauses.at(static_cast<std::size_t>(cause)); }
std::string_view to_text(EventKind kind) { return kEvents.at(static_cast<std::size_t>(kind)); }

}  // namespace glovebox::session
