// Sessions: made, listed, ended. Changes of them are in change_route.cpp.
#include "base/utf8.h"
#include "serve/bodies/create_body.h"
#include "serve/cancel_on_disconnect.h"
#include "serve/helpers.h"
#include "serve/routes/handlers.h"
#include "serve/routes/run_body.h"
#include "serve/session_quota.h"
#include "workspace/tree/printable.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>

namespace glovebox::serve {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostListedDenials = 1'000;

// A policy or a backend that was asked for may be what is wrong. Both are Glovebox's own fields:
// clients that know only execd's never see these codes.
asio::awaitable<std::string> own_code(Call& call, const session::BoxRequest& request) {
  const session::PolicyChoice& policy = request.policy;
  if (policy.name.empty() && policy.document.empty() && !request.backend) co_return "";
  const session::RequestFault fault = co_await call.service.manager.find_fault(request);
  switch (fault) {
    case session::RequestFault::Policy: co_return "POLICY_INVALID";
    case session::RequestFault::Backend: co_return "BACKEND_UNAVAILABLE";
    case session::RequestFault::None: break;
  }
  co_return "";
}

// What a request for a session is refused with, in the words of its clients.
ApiError create_refusal(const Error& error) {
  ApiError refused = to_api_error(error);
  if (error.code == Code::Invalid || error.code == Code::Denied || error.code == Code::NotFound ||
      (error.code == Code::Os && refused.status == 404)) {
    refused.status = 400;
    refused.code = "RUNTIME_ERROR";
  } else if (error.code == Code::Exhausted) {
    refused.headers.push_back({"Retry-After", "5"});
  } else if (error.code == Code::Os && refused.status != 507) {
    refused.status = 500;
    refused.code = "RUNTIME_ERROR";
  }
  return refused;
}

bool is_about_request(const Error& error) {
  return error.code != Code::Exhausted && error.code != Code::Os;
}

bool owns(const Call& call, const session::SessionInfo& info) {
  const auto owner = info.effective.labels.find(std::string(kOwnerLabel));
  return call.identity.may(Scope::Admin) ||
         (owner != info.effective.labels.end() && owner->second == call.identity.name);
}

Result<void, ApiError> check_boxes(const Call& call) {
  const session::Abilities& abilities = call.service.abilities;
  if (abilities.available) return {};
  return refuse(503, "SERVICE_UNAVAILABLE", "isolation unavailable: {}", abilities.problem);
}

// The order as a request to the manager.
session::BoxRequest complete(const Call& call, const CreateOrder& order) {
  session::BoxRequest request = order.session;
  hide_in_labels(order, call.identity.name, request.labels);
  request.env = passed_environment(order.env, call.service.environment, call.service.secret_names);
  if (call.identity.ceiling) request.ceiling = *call.identity.ceiling;
  call.identity.bound(request);
  return request;
}

// A link that was moved between the check and the mount would have led somewhere else. What was
// mounted is what the session says; anything else than what was checked ends it.
bool was_mounted_as_checked(const session::SessionInfo& info, const CreateOrder& order) {
  return std::ranges::equal(info.effective.binds, order.session.binds, {},
                            &session::BindRequest::source, &session::BindRequest::source) &&
         std::ranges::equal(info.effective.workspaces, order.resolved_workspaces, {},
                            &session::WorkspaceRequest::path);
}

}  // namespace

asio::awaitable<Answer> create_session(Call& call) {
  CO_TRY_VOID(check_boxes(call));
  CO_TRY(const Room room, Room::take(call, 1));
  CO_TRY(const json::value body, co_await read_json(call, Empty::Refuse));
  CO_TRY(CreateOrder order, read_create_order(body, unknown_fields(call)));
  const HostRules& rules = call.service.rules;
  CO_TRY_VOID(co_await on_pool(call.service, [&] { return apply_host_rules(rules, order); }));
  const session::BoxRequest request = complete(call, order);
  auto created = co_await call.service.manager.create(request);
  if (!created) {
    audit(call, "create", {{"refused", created.error().message}});
    ApiError refused = create_refusal(created.error());
    if (is_about_request(created.error())) {
      std::string code = co_await own_code(call, request);
      if (!code.empty()) refused.code = std::move(code);
    }
    co_return tl::unexpected(std::move(refused));
  }
  const std::string id = created->id;
  if (!was_mounted_as_checked(*created, order)) {
    (void)co_await call.service.manager.remove(id, session::LayerFate::Remove);
    co_return refuse(400, "RUNTIME_ERROR", "a path led elsewhere while it was checked");
  }
  json::object fields = {{"session_id", id}};
  if (created->policy) fields["policy_digest"] = created->policy->digest;
  audit(call, "create", std::move(fields));
  json::object answer;
  answer["session_id"] = id;
  answer["created_at"] = time_text(created->created_at);
  // An ordinary user has some limits only where a cgroup was delegated; the report says it.
  if (call.service.abilities.tier == host::Tier::Root && !created->not_enforced.empty()) {
    answer["not_enforced"] = missing_json(created->not_enforced);
  }
  co_return json_answer(201, answer);
}

asio::awaitable<Answer> list_sessions(Call& call) {
  CO_TRY_VOID(check_available(call));
  std::map<std::string, std::string> labels;
  for (const std::string& label : call.request.all_query("label")) {
    const std::size_t equals = label.find('=');
    if (equals == std::string::npos) {
      co_return refuse(400, "INVALID_REQUEST", "'label' is NAME=VALUE");
    }
    labels[label.substr(0, equals)] = label.substr(equals + 1);
  }
  json::array sessions;
  for (const session::SessionInfo& info : call.service.manager.list(labels)) {
    if (owns(call, info)) sessions.push_back(session_summary(info));
  }
  co_return json_answer(200, {{"sessions", std::move(sessions)}});
}

asio::awaitable<Answer> get_session(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  co_return json_answer(200, session_state(info));
}

asio::awaitable<Answer> delete_session(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  const std::string* keep = call.request.find_query("keep_layers");
  const auto fate =
      keep != nullptr && *keep == "true" ? session::LayerFate::Keep : session::LayerFate::Remove;
  // Such layers are on the host afterwards, out of the reach of this interface.
  if (fate == session::LayerFate::Keep && !call.identity.may(Scope::Admin)) {
    co_return refuse(403, "FORBIDDEN", "keep_layers needs the scope admin");
  }
  const std::string* used = call.request.find_query("if_used");
  if (used != nullptr && *used != call.service.manager.usage(info.id).value_or("")) {
    co_return refuse(409, "SESSION_WAS_USED", "the session was used since, and is still there");
  }
  const auto removed = co_await call.service.manager.remove(info.id, fate);
  if (!removed) {
    if (removed.error().code == Code::NotFound) {
      co_return refuse(404, "SESSION_NOT_FOUND", "session not found");
    }
    co_return refuse(500, "RUNTIME_ERROR", "{}", removed.error().message);
  }
  audit(call, "delete", {{"session_id", info.id}});
  if (fate == session::LayerFate::Remove) co_return empty_answer();
  json::array kept;
  for (const session::KeptLayer& one : *removed) {
    kept.push_back({{"layer", one.layer.id},
                    {"workspace", workspace::printable(one.layer.origin)},
                    {"changes", one.changes}});
  }
  co_return json_answer(200, {{"kept", std::move(kept)}});
}

asio::awaitable<Answer> session_report(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  CO_TRY(const session::SessionReport report, or_refuse(call.service.manager.report(info.id)));
  co_return json_answer(200, report_json(report));
}

namespace {

std::string denial_frame(const session::SessionEvent& event) {
  return fmt::format("id: {}\nevent: denied\ndata: {}\n\n", event.number,
                     to_valid_utf8(json::serialize(event_json(event))));
}

// Denials that are remembered and came after the one that a client had last.
std::string denials_after(const Call& call, const std::string& id, std::uint64_t after) {
  std::string frames;
  if (after == 0) return frames;
  for (const session::SessionEvent& event : call.service.denials) {
    if (event.session == id && event.number > after) frames += denial_frame(event);
  }
  return frames;
}

// Denials as they happen, until the client goes.
asio::awaitable<Answer> follow_denials(Call& call, std::string id) {
  CO_TRY(const std::uint64_t after, last_event_id(call.request));
  Response head;
  head.headers = {{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-cache"}};
  call.exchange.begin(std::move(head), Length{});
  const auto feed = call.service.manager.watch();
  const std::string missed = denials_after(call, id, after);
  if (const auto sent = co_await call.exchange.flush_head(); !sent) co_return already_sent();
  if (const auto sent = co_await call.exchange.send(missed); !sent) co_return already_sent();
  for (;;) {
    const auto next = co_await until_gone(call.exchange, feed->next());
    if (!next) break;
    const session::SessionEvent& event = next->event;
    if (event.session != id) continue;
    const bool over = event.kind == session::EventKind::Deleted;
    if (event.kind != session::EventKind::Denied && !over) continue;
    if (over) break;
    const std::string frame = denial_frame(event);
    if (const auto sent = co_await call.exchange.send(frame); !sent) break;
  }
  (void)co_await call.exchange.finish("");  // the client may be gone
  co_return already_sent();
}

}  // namespace

asio::awaitable<Answer> session_denials(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  const std::string* accept = call.request.find_header("accept");
  if (accept != nullptr && accept->find("text/event-stream") != std::string::npos) {
    co_return co_await follow_denials(call, info.id);
  }
  json::array denials;
  for (const session::SessionEvent& event : call.service.denials) {
    if (event.session != info.id) continue;
    if (denials.size() == kMostListedDenials) denials.erase(denials.begin());
    denials.push_back(event_json(event));
  }
  co_return json_answer(200, {{"denials", std::move(denials)}});
}

}  // namespace glovebox::serve
