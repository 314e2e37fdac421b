// What handlers have in common.
#pragma once

#include "serve/bodies/json_body.h"
#include "serve/service.h"

#include <boost/json/value.hpp>

#include <string>
#include <string_view>

namespace glovebox::serve {

// An error of the layers below as a refusal.
ApiError to_api_error(const Error& error);
template <class T>
Result<T, ApiError> or_refuse(Result<T> result) {
  if (!result) return tl::unexpected(to_api_error(result.error()));
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    return *std::move(result);
  }
}

// The body as JSON. An empty one is an empty object when `Empty::Fine`.
enum class Empty : std::uint8_t { Refuse, Fine };
asio::awaitable<Result<boost::json::value, ApiError>> read_json(Call& call, Empty empty);
Unknown unknown_fields(const Call& call);

// Answers with what is in a file without a name, in pieces. The head has been sent.
asio::awaitable<void> send_file(Call& call, const UniqueFd& file, std::uint64_t size);

// The session of the route that the caller may see: 404 SESSION_NOT_FOUND otherwise. A token that
// is not admin's sees its own sessions alone.
Result<session::SessionInfo, ApiError> find_session(const Call& call);
// The same, to work with: dead ones are 500 "isolated session is not active".
Result<std::shared_ptr<session::LiveSession>, ApiError> attach_session(const Call& call);
// 503 when boxes cannot be made here and none ever was.
Result<void, ApiError> check_available(const Call& call);

// One line in the audit, with who did it.
void audit(Call& call, std::string_view act, boost::json::object fields);

std::string time_text(session::WallTime time);
boost::json::object session_state(const session::SessionInfo& info);
// [{"name": ..., "why": ...}]: what a box has by default and this one not.
boost::json::array missing_json(const std::vector<plan::Guarantee>& missing);
boost::json::object session_summary(const session::SessionInfo& info);
boost::json::object report_json(const session::SessionReport& report);
boost::json::object event_json(const session::SessionEvent& event);
boost::json::object labels_json(const std::map<std::string, std::string>& labels);

}  // namespace glovebox::serve
