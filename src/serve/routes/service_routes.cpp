// About the service itself.
#include "base/file.h"
#include "http/date.h"
#include "policy/load.h"
#include "policy/print.h"
#include "policy/templates.h"
#include "serve/helpers.h"
#include "serve/openapi.h"
#include "serve/routes/handlers.h"
#include "session/python/python_facts.h"

#include <boost/json/array.hpp>

#include <algorithm>
#include <filesystem>

namespace glovebox::serve {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxPolicy = 1 << 20;

bool is_policy_file(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".yaml" || extension == ".yml" || extension == ".json";
}

Result<std::vector<policy::NamedText>> read_policies(const std::string& directory) {
  std::vector<policy::NamedText> documents;
  // The templates come with the product; a file of the same name takes the place of one.
  std::error_code problem;
  std::filesystem::directory_iterator entries(directory, problem);
  if (problem) return fail_os(problem.value(), "read policies of {}", directory);
  for (const auto& entry : entries) {
    if (!is_policy_file(entry.path()) || !entry.is_regular_file(problem)) continue;
    TRY(std::string text, read_file(entry.path().string(), kMaxPolicy));
    documents.push_back({entry.path().stem().string(), std::move(text)});
  }
  std::ranges::sort(documents, {}, &policy::NamedText::name);
  return documents;
}

json::object policy_json(std::string_view name, std::string_view sandbox,
                         const policy::Policy& policy) {
  json::object object;
  object["name"] = name;
  if (!sandbox.empty()) object["sandbox"] = sandbox;
  if (const auto digest = policy::digest(policy)) object["digest"] = *digest;
  return object;
}

void add_file(json::array& policies, const policy::PolicyFile& file, std::string_view name) {
  const auto names = file.names();
  for (std::size_t i = 0; i < file.sandboxes.size(); ++i) {
    policies.push_back(
        policy_json(name, i < names.size() ? names[i] : "", file.sandboxes[i].policy));
  }
}

Result<egress::Existing, ApiError> read_existing(const Call& call, const json::value& body) {
  BodyProblems problems;
  bool cut = false;
  {
    ObjectReader reader(body, "", problems, unknown_fields(call));
    cut = reader.flag("cut").value_or(false);
  }
  TRY_VOID(problems.check());
  return cut ? egress::Existing::Cut : egress::Existing::Keep;
}

json::array lines_json(const std::vector<std::string>& lines) {
  json::array array;
  for (const std::string& line : lines) array.emplace_back(line);
  return array;
}

std::string_view change_word(policy::PolicyChange::Kind kind) {
  switch (kind) {
    case policy::PolicyChange::Kind::Added: return "added";
    case policy::PolicyChange::Kind::Removed: return "removed";
    case policy::PolicyChange::Kind::Changed: return "changed";
  }
  return "unknown";
}

json::object reloaded_json(const Reloaded& reloaded) {
  json::array policies;
  for (const policy::PolicyChange& change : reloaded.changes) {
    json::object one;
    one["name"] = change.file;
    if (!change.sandbox.empty()) one["sandbox"] = change.sandbox;
    one["change"] = change_word(change.kind);
    one["at_once"] = lines_json(change.narrowing.at_once);
    one["for_new_sessions"] = lines_json(change.narrowing.for_new_boxes);
    policies.push_back(std::move(one));
  }
  json::array sessions;
  for (const session::NarrowedSession& session : reloaded.sessions) {
    sessions.push_back({{"session_id", session.id},
                        {"policy", session.policy},
                        {"at_once", lines_json(session.box.at_once)},
                        {"for_new_sessions", lines_json(session.box.for_new_boxes)},
                        {"connections_cut", session.box.cut}});
  }
  return {{"changed", reloaded.changes.size()},
          {"policies", std::move(policies)},
          {"sessions", std::move(sessions)}};
}

void set_gauges(Service& service) {
  const auto sessions = service.manager.counts();
  observe::Metrics& metrics = service.metrics;
  metrics.set("execd.isolation.session.count", {}, static_cast<double>(sessions.alive));
  metrics.set("glovebox.sessions.dead", {}, static_cast<double>(sessions.dead));
  metrics.set("glovebox.launcher.restarts", {}, static_cast<double>(sessions.launcher_restarts));
  metrics.set("glovebox.pool.hits", {}, static_cast<double>(sessions.parked.hits));
  metrics.set("glovebox.pool.misses", {}, static_cast<double>(sessions.parked.misses));
  metrics.set("glovebox.pool.refills", {}, static_cast<double>(sessions.parked.refills));
  metrics.set("glovebox.pool.parked", {}, static_cast<double>(sessions.parked.parked));
  metrics.set("execd.isolation.upper.usage_bytes", {},
              static_cast<double>(service.manager.layer_usage().bytes()));
  const HttpCounts http = service.http_counts();
  metrics.set("glovebox.http.connections.open", {}, static_cast<double>(http.open_connections));
  metrics.set("glovebox.http.requests.open", {}, static_cast<double>(http.open_requests));
  metrics.set("glovebox.http.refused", {}, static_cast<double>(http.refused));
  metrics.set("glovebox.http.evicted", {}, static_cast<double>(http.evicted));
  const observe::MachineLoad load = service.meter.read();
  metrics.set("execd.system.cpu.usage", {}, load.cpu_used_percent);
  metrics.set("execd.system.memory.usage_bytes", {}, load.memory_used_mib * 1024 * 1024);
}

}  // namespace

Result<Reloaded> reload_policies(Service& service, egress::Existing existing) {
  Reloaded reloaded;
  if (!service.config.policy_directory.empty()) {
    TRY(const std::vector<policy::NamedText> documents,
        read_policies(service.config.policy_directory));
    auto changes = service.policies->reload(documents);
    if (!changes) return fail(Code::Invalid, "{}", policy::to_text(changes.error()));
    reloaded.changes = *std::move(changes);
  }
  reloaded.sessions = service.manager.narrow(reloaded.changes, existing);
  return reloaded;
}

asio::awaitable<Answer> ping(Call& /*call*/) { co_return empty_answer(); }

asio::awaitable<Answer> openapi(Call& /*call*/) {
  co_return text_answer(200, std::string(openapi_document()), "application/yaml");
}

asio::awaitable<Answer> metrics(Call& call) {
  Service& service = call.service;
  const std::string* accept = call.request.find_header("accept");
  const bool wants_text = accept != nullptr && (accept->find("text/plain") != std::string::npos ||
                                                accept->find("openmetrics") != std::string::npos);
  if (wants_text) {
    set_gauges(service);
    co_return text_answer(200, service.metrics.to_prometheus(),
                          "text/plain; version=0.0.4; charset=utf-8");
  }
  const observe::MachineLoad load = service.meter.read();
  json::object answer;
  answer["cpu_count"] = load.cpu_count;
  answer["cpu_used_pct"] = load.cpu_used_percent;
  answer["mem_total_mib"] = load.memory_total_mib;
  answer["mem_used_mib"] = load.memory_used_mib;
  answer["timestamp"] = unix_milliseconds();
  co_return json_answer(200, answer);
}

asio::awaitable<Answer> capabilities(Call& call) {
  const session::Abilities& able = call.service.abilities;
  json::object answer;
  answer["available"] = able.available;
  answer["isolator"] = "glovebox";
  answer["version"] = GLOVEBOX_VERSION;
  if (!able.problem.empty()) answer["message"] = able.problem;
  // Ids are those that the box sees; both ways to ask for them lead to the same.
  answer["setpriv_available"] = able.available;
  answer["userns_available"] = able.available;
  answer["commit_supported"] = able.available && able.overlay;
  answer["diff_supported"] = able.available && able.overlay;
  const std::string_view state = able.available ? "active" : "unsupported";
  json::object hardening;
  hardening["init_mode"] = able.available ? "pid1" : "none";
  hardening["signal_shield"] = able.available;
  for (const char* wall : {"cap_drop", "seccomp", "landlock"}) {
    hardening[wall] = {{"state", state}};
  }
  hardening["ebpf"] = {{"state", "disabled"}, {"message", "not used"}};
  answer["hardening"] = std::move(hardening);
  if (const auto python = session::find_default_python()) {
    answer["python"] = {{"interpreter", python->interpreter},
                        {"cells_per_worker", python->cells_per_worker()}};
  }
  co_return json_answer(200, answer);
}

asio::awaitable<Answer> list_policies(Call& call) {
  json::array policies;
  const auto current = call.service.policies->current();
  for (const policy::PolicyFile& file : current->files()) add_file(policies, file, file.file);
  for (const policy::Template& one : policy::templates()) {
    if (current->find(one.name) != nullptr) continue;
    const auto file = policy::compile(one.text, one.name);
    if (file) add_file(policies, *file, one.name);
  }
  co_return json_answer(200, {{"policies", std::move(policies)}});
}

asio::awaitable<Answer> reload(Call& call) {
  CO_TRY(const json::value body, co_await read_json(call, Empty::Fine));
  CO_TRY(const egress::Existing existing, read_existing(call, body));
  const auto reloaded = reload_policies(call.service, existing);
  if (!reloaded) {
    audit(call, "reload", {{"refused", reloaded.error().message}});
    co_return refuse(400, "INVALID_POLICY", "{}", reloaded.error().message);
  }
  audit(call, "reload",
        {{"changed", reloaded->changes.size()},
         {"narrowed", reloaded->sessions.size()},
         {"cut", existing == egress::Existing::Cut}});
  co_return json_answer(200, reloaded_json(*reloaded));
}

}  // namespace glovebox::serve
