// The handlers of all routes; routes.cpp says which is for what.
#pragma once

#include "http/router.h"

#include <span>

namespace glovebox::serve {

std::span<const Route> all_routes();

// About the service (service_routes.cpp).
asio::awaitable<Answer> ping(Call& call);
asio::awaitable<Answer> metrics(Call& call);
asio::awaitable<Answer> openapi(Call& call);
asio::awaitable<Answer> capabilities(Call& call);
asio::awaitable<Answer> list_policies(Call& call);
asio::awaitable<Answer> reload(Call& call);

// Sessions (session_routes.cpp, change_route.cpp).
asio::awaitable<Answer> create_session(Call& call);
asio::awaitable<Answer> list_sessions(Call& call);
asio::awaitable<Answer> get_session(Call& call);
asio::awaitable<Answer> change_session(Call& call);
asio::awaitable<Answer> delete_session(Call& call);
asio::awaitable<Answer> session_report(Call& call);
asio::awaitable<Answer> session_denials(Call& call);

// Runs (run_routes.cpp, resumable_run.cpp, pty_route.cpp, python_route.cpp).
asio::awaitable<Answer> run_code(Call& call);
asio::awaitable<Answer> run_status(Call& call);
asio::awaitable<Answer> run_logs(Call& call);
asio::awaitable<Answer> run_events(Call& call);
asio::awaitable<Answer> signal_run(Call& call);
asio::awaitable<Answer> open_pty(Call& call);
asio::awaitable<Answer> open_python(Call& call);

// What a session changed (layer_routes.cpp).
asio::awaitable<Answer> session_diff(Call& call);
asio::awaitable<Answer> commit_session(Call& call);
asio::awaitable<Answer> undo_commit(Call& call);

// Files (file_routes.cpp, transfer_routes.cpp).
asio::awaitable<Answer> file_info(Call& call);
asio::awaitable<Answer> download(Call& call);
asio::awaitable<Answer> upload(Call& call);
asio::awaitable<Answer> delete_files(Call& call);
asio::awaitable<Answer> move_files(Call& call);
asio::awaitable<Answer> set_permissions(Call& call);
asio::awaitable<Answer> replace_content(Call& call);
asio::awaitable<Answer> search_files(Call& call);
asio::awaitable<Answer> list_directory(Call& call);
asio::awaitable<Answer> make_directories(Call& call);
asio::awaitable<Answer> delete_directories(Call& call);

}  // namespace glovebox::serve
