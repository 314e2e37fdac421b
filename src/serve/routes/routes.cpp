#include "serve/routes/handlers.h"
#include "serve/routes/state_routes.h"

#include <array>

namespace glovebox::serve {
namespace {

using enum Method;

#define GLOVEBOX_SESSION "/v1/isolated/session/{id}"

constexpr std::array kRoutes = {
    Route{Get, "/ping", Scope::Read, ping},
    Route{Get, "/metrics", Scope::Read, metrics},
    Route{Get, "/openapi.yaml", Scope::Read, openapi},
    Route{Get, "/v1/policies", Scope::Read, list_policies},
    Route{Post, "/v1/policies/reload", Scope::Admin, reload},

    Route{Get, "/v1/isolated/capabilities", Scope::Read, capabilities},
    Route{Post, "/v1/isolated/session", Scope::Create, create_session},
    Route{Get, "/v1/isolated/sessions", Scope::Read, list_sessions},
    Route{Get, GLOVEBOX_SESSION, Scope::Read, get_session},
    Route{Patch, GLOVEBOX_SESSION, Scope::Create, change_session},
    Route{Delete, GLOVEBOX_SESSION, Scope::Create, delete_session},
    Route{Get, GLOVEBOX_SESSION "/report", Scope::Read, session_report},
    Route{Get, GLOVEBOX_SESSION "/denials", Scope::Read, session_denials},

    Route{Post, GLOVEBOX_SESSION "/run", Scope::Create, run_code},
    Route{Get, GLOVEBOX_SESSION "/runs/{run}", Scope::Read, run_status},
    Route{Get, GLOVEBOX_SESSION "/runs/{run}/logs", Scope::Read, run_logs},
    Route{Get, GLOVEBOX_SESSION "/runs/{run}/events", Scope::Create, run_events},
    Route{Post, GLOVEBOX_SESSION "/signal", Scope::Create, signal_run},
    Route{Get, GLOVEBOX_SESSION "/pty", Scope::Create, open_pty},
    Route{Get, GLOVEBOX_SESSION "/python", Scope::Create, open_python},

    Route{Get, GLOVEBOX_SESSION "/diff", Scope::Read, session_diff},
    Route{Post, GLOVEBOX_SESSION "/commit", Scope::Create, commit_session},
    Route{Post, GLOVEBOX_SESSION "/undo", Scope::Create, undo_commit},

    Route{Post, GLOVEBOX_SESSION "/recycle", Scope::Create, recycle_session},
    Route{Post, GLOVEBOX_SESSION "/fork", Scope::Create, fork_session},
    Route{Post, GLOVEBOX_SESSION "/checkpoint", Scope::Create, checkpoint_session},
    Route{Post, "/v1/isolated/restore", Scope::Create, restore_session},

    Route{Get, GLOVEBOX_SESSION "/files/info", Scope::Read, file_info},
    Route{Get, GLOVEBOX_SESSION "/files/download", Scope::Read, download},
    Route{Post, GLOVEBOX_SESSION "/files/upload", Scope::Create, upload},
    Route{Delete, GLOVEBOX_SESSION "/files", Scope::Create, delete_files},
    Route{Post, GLOVEBOX_SESSION "/files/mv", Scope::Create, move_files},
    Route{Post, GLOVEBOX_SESSION "/files/permissions", Scope::Create, set_permissions},
    Route{Post, GLOVEBOX_SESSION "/files/replace", Scope::Create, replace_content},
    Route{Get, GLOVEBOX_SESSION "/files/search", Scope::Read, search_files},
    Route{Get, GLOVEBOX_SESSION "/directories/list", Scope::Read, list_directory},
    Route{Post, GLOVEBOX_SESSION "/directories", Scope::Create, make_directories},
    Route{Delete, GLOVEBOX_SESSION "/directories", Scope::Create, delete_directories},
};

#undef GLOVEBOX_SESSION

}  // namespace

std::span<const Route> all_routes() { return kRoutes; }

}  // namespace glovebox::serve
