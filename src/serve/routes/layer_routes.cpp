// What a session changed: shown, taken over, taken back.
#include "serve/helpers.h"
#include "serve/routes/handlers.h"
#include "serve/routes/state_routes.h"

#include <boost/json/array.hpp>

#include <cerrno>
#include <memory>

#include <unistd.h>

namespace glovebox::serve {
namespace {

namespace json = boost::json;
using session::DiffForm;

struct DiffChoice {
  DiffForm form;
  std::string_view type;
};

DiffChoice choose_form(const Request& request) {
  const std::string* accept = request.find_header("accept");
  const std::string wanted = accept == nullptr ? "" : *accept;
  const auto asks = [&](std::string_view type) { return wanted.find(type) != std::string::npos; };
  // What is named first in the list of types that a client takes is not looked at: one is enough.
  if (asks("application/json")) {
    return {DiffForm::Json, "application/json; charset=utf-8"};
  }
  if (asks("text/x-diff") || asks("text/x-patch") || asks("text/plain")) {
    return {DiffForm::Unified, "text/x-diff; charset=utf-8"};
  }
  return {DiffForm::TarGz, "application/gzip"};
}

session::LayerChoice layer_of(const Request& request) {
  const std::string* workspace = request.find_query("workspace");
  return session::LayerChoice{workspace == nullptr ? "" : *workspace};
}

// The session that a diff is against, when it is not against the original: one that the caller may
// see.
Result<std::string, ApiError> branch_of(const Call& call) {
  const std::string* from = call.request.find_query("from");
  if (from == nullptr) return std::string();
  TRY(const session::SessionInfo info, find_other_session(call, *from));
  return info.id;
}

json::array changes_json(const std::vector<workspace::Change>& changes) {
  json::array array;
  for (const workspace::Change& change : changes) {
    json::object object;
    object["path"] = change.path;
    object["kind"] = workspace::to_text(change.kind);
    if (!change.from.empty()) object["from"] = change.from;
    array.push_back(std::move(object));
  }
  return array;
}

json::array conflicts_json(const std::vector<workspace::Conflict>& conflicts) {
  json::array array;
  for (const workspace::Conflict& conflict : conflicts) {
    array.push_back({{"path", conflict.path}, {"why", conflict.why}});
  }
  return array;
}

json::array paths_json(const std::vector<std::string>& paths) {
  return json::array(paths.begin(), paths.end());
}

json::array held_json(const std::vector<workspace::Held>& held) {
  json::array array;
  for (const workspace::Held& one : held) {
    array.push_back({{"path", one.path},
                     {"rule", one.rule},
                     {"class", one.rule_class},
                     {"why", one.why},
                     {"paths", paths_json(one.paths)}});
  }
  return array;
}

json::array left_out_json(const std::vector<workspace::LeftOut>& left_out) {
  json::array array;
  for (const workspace::LeftOut& one : left_out) {
    array.push_back({{"rule", one.rule}, {"why", one.why}, {"paths", paths_json(one.paths)}});
  }
  return array;
}

Result<session::CommitRequest, ApiError> read_commit(const Call& call, const json::value& body) {
  session::CommitRequest request;
  BodyProblems problems;
  {
    ObjectReader reader(body, "", problems, unknown_fields(call));
    request.where.workspace = reader.text("workspace").value_or("");
    request.selection.only = reader.texts("only");
    request.selection.reject = reader.texts("reject");
    request.selection.accept_paths = reader.texts("accept_risky");
    request.selection.accept_rules = reader.texts("accept_rules");
    request.selection.accept_classes = reader.texts("accept_classes");
    if (reader.flag("dry_run").value_or(false)) request.act = workspace::Act::DryRun;
  }
  TRY_VOID(problems.check());
  return request;
}

// What a diff, a commit or an undo is refused with. A session without a layer has none of them,
// however it is asked; one that was deleted meanwhile is not there.
ApiError layer_refusal(const Call& call, const std::string& id, const Error& error) {
  ApiError refused = to_api_error(error);
  if (error.code == Code::Unsupported) refused.status = 400;
  if (error.os_errno == ESHUTDOWN) {
    refused.status = 409;
    refused.code = "SESSION_ENDED";
  }
  if (!call.service.manager.get(id)) {
    refused.status = 404;
    refused.code = "SESSION_NOT_FOUND";
    refused.message = "session not found";
  }
  return refused;
}

asio::awaitable<Result<session::DiffBody>> diff_of(session::SessionManager& manager,
                                                   std::string from, std::string id,
                                                   session::LayerChoice where, DiffForm form) {
  if (from.empty()) co_return co_await manager.diff(std::move(id), std::move(where), form);
  co_return co_await manager.diff_between(std::move(from), std::move(id), std::move(where), form);
}

}  // namespace

asio::awaitable<Answer> session_diff(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  const DiffChoice choice = choose_form(call.request);
  CO_TRY(const std::string from, branch_of(call));
  const session::LayerChoice where = layer_of(call.request);
  auto body = co_await diff_of(call.service.manager, from, info.id, where, choice.form);
  if (!body) {
    if (body.error().code == Code::Exhausted) {
      co_return refuse(413, "DIFF_TOO_LARGE", "{}", body.error().message);
    }
    co_return tl::unexpected(layer_refusal(call, info.id, body.error()));
  }
  Response head;
  head.headers = {{"Content-Type", std::string(choice.type)},
                  {"X-Glovebox-Changes", std::to_string(body->changes)}};
  if (choice.form == DiffForm::TarGz) {
    head.headers.push_back(
        {"Content-Disposition", fmt::format("attachment; filename=\"{}.tar.gz\"", info.id)});
  }
  call.exchange.begin(std::move(head), Length{body->size});
  co_await send_file(call, body->file, body->size);
  co_return already_sent();
}

asio::awaitable<Answer> commit_session(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  CO_TRY(const json::value body, co_await read_json(call, Empty::Fine));
  CO_TRY(session::CommitRequest request, read_commit(call, body));
  const bool dry_run = request.act == workspace::Act::DryRun;
  auto result = co_await call.service.manager.commit(info.id, std::move(request));
  if (!result) co_return tl::unexpected(layer_refusal(call, info.id, result.error()));
  json::object fields = {{"session_id", info.id},
                         {"dry_run", dry_run},
                         {"applied", result->applied.size()},
                         {"held", result->held.size()},
                         {"conflicts", result->conflicts.size()}};
  if (info.policy) fields["policy_digest"] = info.policy->digest;
  audit(call, "commit", std::move(fields));
  json::object answer;
  answer["commit"] = result->number;
  answer["dry_run"] = dry_run;
  answer["applied"] = changes_json(result->applied);
  answer["held"] = held_json(result->held);
  answer["left_out"] = left_out_json(result->left_out);
  answer["conflicts"] = conflicts_json(result->conflicts);
  if (!result->is_refused()) co_return json_answer(200, answer);
  ApiError refused{.status = 409,
                   .code = "COMMIT_REFUSED",
                   .message = "nothing was taken over: some paths are held or conflict",
                   .more = std::move(answer),
                   .headers = {}};
  co_return tl::unexpected(std::move(refused));
}

asio::awaitable<Answer> undo_commit(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  auto result = co_await call.service.manager.undo(info.id, layer_of(call.request));
  if (!result) {
    ApiError refused = layer_refusal(call, info.id, result.error());
    if (refused.code == "NOT_FOUND") refused.code = "COMMIT_NOT_FOUND";
    co_return tl::unexpected(std::move(refused));
  }
  audit(call, "undo", {{"session_id", info.id}, {"commit", result->number}});
  json::object answer;
  answer["commit"] = result->number;
  json::array restored;
  for (const std::string& path : result->restored) restored.emplace_back(path);
  answer["restored"] = std::move(restored);
  answer["conflicts"] = conflicts_json(result->conflicts);
  if (result->conflicts.empty()) co_return json_answer(200, answer);
  ApiError refused{.status = 409,
                   .code = "UNDO_REFUSED",
                   .message = "nothing was taken back: some paths changed since",
                   .more = std::move(answer),
                   .headers = {}};
  co_return tl::unexpected(std::move(refused));
}

}  // namespace glovebox::serve
