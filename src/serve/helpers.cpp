#include "serve/helpers.h"

#include "http/date.h"
#include "policy/policy.h"
#include "serve/bodies/create_body.h"

#include <boost/json/array.hpp>

#include <cerrno>
#include <charconv>
#include <memory>

#include <unistd.h>

namespace glovebox::serve {
namespace {

namespace json = boost::json;

json::array texts_json(const std::vector<std::string>& texts) {
  json::array array;
  for (const std::string& text : texts) array.emplace_back(text);
  return array;
}

std::string label_of(const session::SessionInfo& info, std::string_view name,
                     std::string_view otherwise) {
  const auto found = info.effective.labels.find(std::string(name));
  return found == info.effective.labels.end() ? std::string(otherwise) : found->second;
}

std::size_t count_of(const std::string& text) {
  std::size_t count = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), count);  // 0 when it is no number
  return count;
}

json::object workspace_json(const session::WorkspaceInfo& workspace) {
  json::object object;
  object["path"] = workspace.path;
  // To clients of this API a layer that is not kept is an overlay with "persist": false.
  const bool is_discarded = workspace.mode == WorkspaceMode::Discard;
  object["mode"] = to_text(is_discarded ? WorkspaceMode::Overlay : workspace.mode);
  return object;
}

// Without the binds that have a layer.
std::span<const session::WorkspaceInfo> workspaces_of(const session::SessionInfo& info) {
  const std::size_t count = std::min(info.workspaces.size(), info.effective.workspaces.size());
  return std::span(info.workspaces).first(count);
}

// Directories that were asked for as such are told apart from binds by their number.
void add_binds(const session::SessionInfo& info, json::object& state) {
  const std::size_t extra = count_of(label_of(info, "execd.extra_writable", "0"));
  const bool shared_tmp = label_of(info, "execd.profile", "strict") == "balanced";
  const auto& all = info.effective.binds;
  json::array directories;
  json::array binds;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i < extra) {
      directories.emplace_back(all[i].dest);
    } else if (!(shared_tmp && i + 1 == all.size())) {
      binds.push_back({{"source", all[i].source},
                       {"dest", all[i].dest},
                       {"mode", to_text(all[i].mode)},
                       {"readonly", all[i].mode == WorkspaceMode::Read}});
    }
  }
  state["extra_writable"] = std::move(directories);
  state["binds"] = std::move(binds);
}

void add_overlays(const session::SessionInfo& info, json::object& state) {
  const auto workspaces = workspaces_of(info);
  if (workspaces.empty()) return;
  state["workspace"] = workspace_json(workspaces.front());
  if (workspaces.size() < 2) return;
  json::array overlays;
  for (const session::WorkspaceInfo& workspace : workspaces) {
    json::object overlay = workspace_json(workspace);
    const bool is_layered =
        workspace.mode == WorkspaceMode::Overlay || workspace.mode == WorkspaceMode::Discard;
    if (is_layered) overlay["persist"] = workspace.mode == WorkspaceMode::Overlay;
    overlays.push_back(std::move(overlay));
  }
  state["overlays"] = std::move(overlays);
}

void add_idle(const session::SessionInfo& info, json::object& state) {
  if (!info.idle_remaining) return;
  const auto left = std::chrono::ceil<std::chrono::seconds>(*info.idle_remaining).count();
  state["idle_remaining_seconds"] = std::max<std::int64_t>(left, 0);
}

json::object end_json(const session::SessionEnd& end) {
  json::object object;
  object["cause"] = session::to_text(end.cause);
  if (end.limit) object["limit"] = launch::to_text(*end.limit);
  object["message"] = end.sentence;
  object["at"] = time_text(end.at);
  return object;
}

json::object run_json(const session::RunRecord& run) {
  json::object object;
  object["number"] = run.number;
  object["kind"] = run.kind == session::RunRecord::Kind::Background ? "background" : "foreground";
  object["started_at"] = time_text(run.began_at);
  if (run.ended_at) {
    object["finished_at"] = time_text(*run.ended_at);
    object["exit_code"] = run.code;
  }
  if (run.timed_out) object["timed_out"] = true;
  if (run.canceled) object["canceled"] = true;
  object["output_bytes"] = run.output_bytes;
  if (!run.problem.empty()) object["error"] = run.problem;
  return object;
}

json::array guarantees_json(const std::vector<plan::Guarantee>& guarantees) {
  json::array array;
  for (const plan::Guarantee& guarantee : guarantees) {
    array.push_back({{"name", guarantee.name}, {"by", guarantee.by}});
  }
  return array;
}

ApiError os_error(const Error& error) {
  ApiError refused{
      .status = 500, .code = "RUNTIME_ERROR", .message = error.message, .more = {}, .headers = {}};
  switch (error.os_errno) {
    case ENOENT:
      refused.status = 404;
      refused.code = "FILE_NOT_FOUND";
      break;
    case EROFS:
    case EACCES:
    case EPERM:
    case EOVERFLOW: refused.status = 403; break;  // the last: its owner is none of the box
    case EEXIST:
    case ENOTEMPTY:
    case EBUSY: refused.status = 409; break;
    case ENOTDIR:
    case EISDIR:
    case EINVAL:
    case ELOOP:
    case EXDEV:
    case ENAMETOOLONG:
      refused.status = 400;
      refused.code = "INVALID_FILE";
      break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: refused.status = 507; break;
    default: break;
  }
  return refused;
}

}  // namespace

ApiError to_api_error(const Error& error) {
  const auto make = [&](int status, std::string_view code) {
    return ApiError{.status = status,
                    .code = std::string(code),
                    .message = error.message,
                    .more = {},
                    .headers = {}};
  };
  switch (error.code) {
    case Code::Invalid: return make(400, "INVALID_REQUEST_BODY");
    case Code::Denied: return make(403, "FORBIDDEN");
    case Code::Unsupported: return make(503, "NOT_SUPPORTED");
    case Code::NotFound: return make(404, "NOT_FOUND");
    case Code::Exhausted: return make(429, "TOO_MANY_REQUESTS");
    case Code::Os: return os_error(error);
  }
  return make(500, "RUNTIME_ERROR");
}

Unknown unknown_fields(const Call& call) {
  return call.service.config.lenient_fields ? Unknown::Ignore : Unknown::Refuse;
}

asio::awaitable<Result<json::value, ApiError>> read_json(Call& call, Empty empty) {
  auto body = co_await call.exchange.read_body(call.service.config.body_bytes);
  if (!body) co_return tl::unexpected(body_refusal(body.error(), "INVALID_REQUEST_BODY"));
  if (body->empty() && empty == Empty::Fine) co_return json::value(json::object());
  co_return parse_json(*body, call.service.config.json_depth);
}

Result<void, ApiError> check_available(const Call& call) {
  const Service& service = call.service;
  const auto counts = service.manager.counts();
  if (service.abilities.available || counts.alive + counts.dead > 0) return {};
  return refuse(503, "SERVICE_UNAVAILABLE", "isolation unavailable: {}", service.abilities.problem);
}

asio::awaitable<void> send_file(Call& call, const UniqueFd& file, std::uint64_t size) {
  constexpr std::size_t kBuffer = 256 << 10;
  const auto buffer = std::make_unique<char[]>(kBuffer);
  std::uint64_t sent = 0;
  while (sent < size) {
    const ssize_t got = ::pread(file.get(), buffer.get(), kBuffer, static_cast<off_t>(sent));
    if (got <= 0) co_return;  // the answer breaks off, which the client sees
    sent += static_cast<std::uint64_t>(got);
    const std::string_view piece(buffer.get(), static_cast<std::size_t>(got));
    const auto passed = co_await call.exchange.send(piece);
    if (!passed) co_return;
  }
  (void)co_await call.exchange.finish("");
}

Result<session::SessionInfo, ApiError> find_session(const Call& call) {
  TRY_VOID(check_available(call));
  auto info = call.service.manager.get(call.request.parts.at(0));
  if (!info) return refuse(404, "SESSION_NOT_FOUND", "session not found");
  if (!call.identity.may(Scope::Admin) && label_of(*info, kOwnerLabel, "") != call.identity.name) {
    return refuse(404, "SESSION_NOT_FOUND", "session not found");
  }
  return *std::move(info);
}

Result<std::shared_ptr<session::LiveSession>, ApiError> attach_session(const Call& call) {
  // Whose session it is matters to callers that do not see all of them.
  if (!call.identity.may(Scope::Admin)) TRY_VOID(find_session(call));
  auto live = call.service.manager.attach(call.request.parts.at(0));
  if (live) return *std::move(live);
  TRY_VOID(check_available(call));
  if (live.error().code == Code::NotFound) {
    return refuse(404, "SESSION_NOT_FOUND", "session not found");
  }
  return refuse(500, "RUNTIME_ERROR", "isolated session is not active: {}", live.error().message);
}

void audit(Call& call, std::string_view act, json::object fields) {
  fields["who"] = call.identity.name;
  fields["peer"] = call.request.peer.address;
  if (!call.service.audit.write(act, std::move(fields))) {
    call.service.log.write(observe::LogLevel::Error, "a line of the audit could not be written");
  }
}

std::string time_text(session::WallTime time) {
  return rfc3339(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

json::object labels_json(const std::map<std::string, std::string>& labels) {
  json::object object;
  for (const auto& [name, value] : labels) {
    if (!name.starts_with(kOwnLabels)) object[name] = value;
  }
  return object;
}

json::array missing_json(const std::vector<plan::Guarantee>& missing) {
  json::array array;
  for (const plan::Guarantee& one : missing) {
    array.push_back({{"name", one.name}, {"why", one.by}});
  }
  return array;
}

json::object session_summary(const session::SessionInfo& info) {
  json::object summary;
  summary["session_id"] = info.id;
  summary["status"] = session::to_text(info.state);
  summary["created_at"] = time_text(info.created_at);
  summary["last_run_at"] = time_text(info.last_run_at);
  add_idle(info, summary);
  summary["labels"] = labels_json(info.effective.labels);
  if (!info.parent.empty()) summary["parent_id"] = info.parent;
  if (!info.effective.name.empty()) summary["name"] = info.effective.name;
  const auto workspaces = workspaces_of(info);
  if (!workspaces.empty()) summary["workspace"] = workspace_json(workspaces.front());
  if (workspaces.size() > 1) {
    json::array all;
    for (const session::WorkspaceInfo& one : workspaces) all.push_back(workspace_json(one));
    summary["workspaces"] = std::move(all);
  }
  return summary;
}

json::object session_state(const session::SessionInfo& info) {
  json::object state = session_summary(info);
  state["profile"] = label_of(info, "execd.profile", "strict");
  add_overlays(info, state);
  add_binds(info, state);
  state["share_net"] =
      shares_network(info.effective.handed) && !info.effective.network_ceiling.has_value();
  json::array keys;
  std::string_view names = info.effective.labels.contains("execd.env_keys")
                               ? std::string_view(info.effective.labels.at("execd.env_keys"))
                               : std::string_view();
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(','), names.size());
    keys.emplace_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  state["env_passthrough"] = {{"mode", label_of(info, "execd.env_mode", "deny")},
                              {"keys", std::move(keys)}};
  state["backend"] = to_text(info.effective.backend.value_or(Backend::Process));
  state["python"] = info.effective.python.has_value();
  if (info.effective.uid) state["uid"] = *info.effective.uid;
  if (info.effective.gid) state["gid"] = *info.effective.gid;
  state["uid_mode"] = label_of(info, "execd.uid_mode", "setpriv");
  state["idle_timeout_seconds"] =
      std::chrono::duration_cast<std::chrono::seconds>(info.idle_timeout).count();
  if (info.policy) {
    state["policy"] = {{"name", info.policy->name}, {"digest", info.policy->digest}};
  }
  state["runs"] = info.runs;
  if (info.end) state["end"] = end_json(*info.end);
  return state;
}

json::object report_json(const session::SessionReport& report) {
  json::object object;
  object["session"] = session_state(report.info);
  object["enforced"] = guarantees_json(report.guarantees);
  object["proved"] = texts_json(report.proved);
  object["terms"] = guarantees_json(report.terms);
  object["waived"] = texts_json(report.waived);
  object["not_enforced"] = missing_json(report.info.not_enforced);
  object["plan"] = report.plan_text;
  json::object usage;
  usage["runs"] = report.usage.runs;
  usage["output_bytes"] = report.usage.output_bytes;
  if (report.usage.cpu_ns) usage["cpu_ns"] = *report.usage.cpu_ns;
  if (report.usage.peak_memory_bytes) usage["peak_memory_bytes"] = *report.usage.peak_memory_bytes;
  if (report.usage.memory_bytes) usage["memory_bytes"] = *report.usage.memory_bytes;
  if (report.usage.disk_free_bytes) usage["disk_free_bytes"] = *report.usage.disk_free_bytes;
  object["usage"] = std::move(usage);
  json::array runs;
  for (const session::RunRecord& run : report.recent_runs) runs.push_back(run_json(run));
  object["runs"] = std::move(runs);
  return object;
}

json::object event_json(const session::SessionEvent& event) {
  json::object object;
  object["number"] = event.number;
  object["kind"] = session::to_text(event.kind);
  object["at"] = time_text(event.at);
  object["session_id"] = event.session;
  if (!event.policy_digest.empty()) object["policy_digest"] = event.policy_digest;
  if (event.run) object["run"] = run_json(*event.run);
  if (event.end) object["end"] = end_json(*event.end);
  if (!event.denial.capability.empty()) {
    object["capability"] = event.denial.capability;
    object["attempted_action"] = event.denial.action;
    object["policy_rule"] = event.denial.rule;
    object["decision"] = "deny";
  }
  if (!event.detail.empty()) object["detail"] = event.detail;
  return object;
}

}  // namespace glovebox::serve
