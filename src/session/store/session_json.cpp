#include "session/store/session_json.h"

#include "authority/json_codec.h"
#include "base/strict_json.h"

#include <boost/json.hpp>

#include <array>

namespace glovebox::session {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr std::int64_t kVersion = 1;

std::int64_t ns(WallTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}
WallTime from_ns(const json::value& value) {
  return WallTime(std::chrono::nanoseconds(json::value_to<std::int64_t>(value)));
}

template <class T>
json::value optional_number(const std::optional<T>& value) {
  return value ? json::value(static_cast<std::uint64_t>(*value)) : json::value(nullptr);
}
template <class T>
std::optional<T> to_optional(const json::value& value) {
  if (value.is_null()) return std::nullopt;
  return static_cast<T>(json::value_to<std::uint64_t>(value));
}
// An enumerator up to `last`, by number.
template <class T>
T to_enum(const json::value& value, T last) {
  const auto number = json::value_to<std::uint64_t>(value);
  if (number > static_cast<std::uint64_t>(last)) throw std::out_of_range("an unknown number");
  return static_cast<T>(number);
}
template <class T>
json::value number(T value) {
  return static_cast<std::uint64_t>(value);
}
std::string text(const json::object& object, std::string_view key) {
  return json::value_to<std::string>(object.at(key));
}

json::array encode(const std::vector<plan::Guarantee>& lines) {
  json::array list;
  for (const plan::Guarantee& line : lines) {
    list.push_back(json::object{{"name", line.name}, {"by", line.by}});
  }
  return list;
}
std::vector<plan::Guarantee> decode_guarantees(const json::value& value) {
  std::vector<plan::Guarantee> lines;
  for (const json::value& one : value.as_array()) {
    lines.push_back({text(one.as_object(), "name"), text(one.as_object(), "by")});
  }
  return lines;
}

// Modes are words. Version 0.1 wrote numbers, in another order, and said beside them whether a
// layer was kept.
using Modes = std::array<WorkspaceMode, 3>;
constexpr Modes kOldModes{WorkspaceMode::Overlay, WorkspaceMode::Write, WorkspaceMode::Read};
constexpr Modes kOldBindModes{WorkspaceMode::Read, WorkspaceMode::Write, WorkspaceMode::Write};

WorkspaceMode decode_word(const json::value& value, const Modes& old) {
  if (!value.is_string()) return old.at(json::value_to<std::size_t>(value));
  const auto mode = parse_workspace_mode(std::string_view(value.as_string()));
  if (!mode) throw std::out_of_range(mode.error().message);
  return *mode;
}
WorkspaceMode decode_mode(const json::object& object) {
  const WorkspaceMode mode = decode_word(object.at("mode"), kOldModes);
  const json::value* persist = object.if_contains("persist");
  const bool is_discarded = persist != nullptr && persist->is_int64() && persist->as_int64() == 1;
  return is_discarded && mode == WorkspaceMode::Overlay ? WorkspaceMode::Discard : mode;
}
WorkspaceMode decode_bind_mode(const json::object& object) {
  return decode_word(object.at("mode"), kOldBindModes);
}

// What a box is like beside what it may do. Members are there when they say something.
void encode_surroundings(const BoxRequest& request, json::object& object) {
  if (request.cwd) object["cwd"] = *request.cwd;
  if (request.loopback == plan::Loopback::Down) object["no_loopback"] = true;
  if (!request.resolver.empty()) object["resolver"] = request.resolver;
  json::array published;
  for (const plan::Publication& port : request.published) {
    published.push_back(json::value(plan::to_text(port)));
  }
  if (!published.empty()) object["publish"] = std::move(published);
}
Result<void> decode_surroundings(const json::object& object, BoxRequest& request) {
  if (object.contains("cwd")) request.cwd = text(object, "cwd");
  if (object.contains("no_loopback")) request.loopback = plan::Loopback::Down;
  if (object.contains("resolver")) request.resolver = text(object, "resolver");
  const json::value* published = object.if_contains("publish");
  if (published == nullptr) return {};
  for (const json::value& port : published->as_array()) {
    TRY(plan::Publication parsed, plan::parse_publication(json::value_to<std::string>(port)));
    request.published.push_back(std::move(parsed));
  }
  return {};
}

json::object encode_places(const BoxRequest& request) {
  json::array workspaces;
  for (const WorkspaceRequest& one : request.workspaces) {
    json::object object{{"path", one.path}, {"mode", nullptr}};
    if (one.mode) object["mode"] = to_text(*one.mode);
    if (one.if_missing == IfMissing::Refuse) object["must_exist"] = true;
    workspaces.push_back(std::move(object));
  }
  json::array binds;
  for (const BindRequest& one : request.binds) {
    binds.push_back(
        json::object{{"source", one.source}, {"dest", one.dest}, {"mode", to_text(one.mode)}});
  }
  return {{"workspaces", std::move(workspaces)}, {"binds", std::move(binds)}};
}

}  // namespace

Result<json::object> encode_request(const BoxRequest& request) {
  json::object object = encode_places(request);
  object["name"] = request.name;
  object["labels"] = json::value_from(request.labels);
  object["policy"] = json::object{{"name", request.policy.name},
                                  {"sandbox", request.policy.sandbox},
                                  {"if_digest", request.policy.if_digest},
                                  {"links", json::value_from(request.policy.links)}};
  TRY(object["handed"], authority::to_json(request.handed));
  object["ceiling"] = nullptr;
  if (request.ceiling) {
    TRY(object["ceiling"], authority::to_json(*request.ceiling));
  }
  if (request.network_ceiling) {
    TRY(object["network_ceiling"], authority::to_json(*request.network_ceiling));
  }
  if (request.most_workspace) object["most_workspace"] = to_text(*request.most_workspace);
  object["cpus_milli"] = optional_number(request.cpus_milli);
  object["backend"] = optional_number(request.backend);
  json::array env;
  for (const plan::EnvEntry& entry : request.env) env.push_back(json::value(entry.name));
  object["env"] = std::move(env);
  object["uid"] = optional_number(request.uid);
  object["gid"] = optional_number(request.gid);
  object["idle_ms"] = nullptr;
  if (request.idle_timeout) object["idle_ms"] = request.idle_timeout->count();
  object["hostname"] = request.hostname;
  object["waived"] = json::value_from(request.waived);
  object["prove"] = request.prove;
  encode_surroundings(request, object);
  if (request.python) {
    object["python"] = json::object{{"interpreter", request.python->interpreter},
                                    {"preload", json::value_from(request.python->preload)}};
  }
  return object;
}

namespace {

void decode_places(const json::object& object, BoxRequest& request) {
  for (const json::value& value : object.at("workspaces").as_array()) {
    const json::object& one = value.as_object();
    WorkspaceRequest workspace;
    workspace.path = text(one, "path");
    if (!one.at("mode").is_null()) workspace.mode = decode_mode(one);
    if (one.contains("must_exist")) workspace.if_missing = IfMissing::Refuse;
    request.workspaces.push_back(std::move(workspace));
  }
  for (const json::value& value : object.at("binds").as_array()) {
    const json::object& one = value.as_object();
    request.binds.push_back({text(one, "source"), text(one, "dest"), decode_bind_mode(one)});
  }
}

}  // namespace

Result<BoxRequest> decode_request(const json::object& object) {
  BoxRequest request;
  decode_places(object, request);
  request.name = text(object, "name");
  request.labels = json::value_to<std::map<std::string, std::string>>(object.at("labels"));
  const json::object& policy = object.at("policy").as_object();
  request.policy = {text(policy, "name"), {}, text(policy, "sandbox"), text(policy, "if_digest")};
  if (const json::value* links = policy.if_contains("links")) {
    request.policy.links = json::value_to<std::map<std::string, std::string>>(*links);
  }
  TRY(request.handed, authority::set_from_json(object.at("handed")));
  if (!object.at("ceiling").is_null()) {
    TRY(request.ceiling, authority::set_from_json(object.at("ceiling")));
  }
  if (const json::value* network = object.if_contains("network_ceiling")) {
    TRY(request.network_ceiling, authority::set_from_json(*network));
  }
  if (const json::value* most = object.if_contains("most_workspace")) {
    request.most_workspace = decode_word(*most, kOldModes);
  }
  request.cpus_milli = to_optional<std::uint64_t>(object.at("cpus_milli"));
  if (!object.at("backend").is_null()) {
    request.backend = to_enum(object.at("backend"), Backend::Microvm);
  }
  for (const json::value& name : object.at("env").as_array()) {
    request.env.push_back({json::value_to<std::string>(name), {}});
  }
  if (const json::value* python = object.if_contains("python")) {
    const json::object& fields = python->as_object();
    request.python = PythonRequest{text(fields, "interpreter"),
                                   json::value_to<std::vector<std::string>>(fields.at("preload"))};
  }
  request.uid = to_optional<uid_t>(object.at("uid"));
  request.gid = to_optional<gid_t>(object.at("gid"));
  if (const auto idle = to_optional<std::int64_t>(object.at("idle_ms"))) {
    request.idle_timeout = milliseconds(*idle);
  }
  request.hostname = text(object, "hostname");
  request.waived = json::value_to<std::set<std::string>>(object.at("waived"));
  if (const json::value* prove = object.if_contains("prove")) request.prove = prove->as_bool();
  TRY_VOID(decode_surroundings(object, request));
  return request;
}

namespace {

json::value encode_end(const std::optional<SessionEnd>& end) {
  if (!end) return nullptr;
  return json::object{{"cause", number(end->cause)},
                      {"limit", optional_number(end->limit)},
                      {"sentence", end->sentence},
                      {"at_ns", ns(end->at)}};
}
std::optional<SessionEnd> decode_end(const json::value& value) {
  if (value.is_null()) return std::nullopt;
  const json::object& object = value.as_object();
  SessionEnd end;
  end.cause = to_enum(object.at("cause"), EndCause::Network);
  if (!object.at("limit").is_null()) {
    end.limit = to_enum(object.at("limit"), launch::LimitKind::Disk);
  }
  end.sentence = text(object, "sentence");
  end.at = from_ns(object.at("at_ns"));
  return end;
}

json::array encode(const std::vector<WorkspaceInfo>& workspaces) {
  json::array list;
  for (const WorkspaceInfo& one : workspaces) {
    list.push_back(json::object{{"path", one.path},
                                {"mode", to_text(one.mode)},
                                {"layer", one.layer_id},
                                {"below", json::value_from(one.below)},
                                {"inside", one.inside}});
  }
  return list;
}
std::vector<WorkspaceInfo> decode_workspaces(const json::value& value) {
  std::vector<WorkspaceInfo> list;
  for (const json::value& entry : value.as_array()) {
    const json::object& one = entry.as_object();
    list.push_back({text(one, "path"), decode_mode(one), text(one, "layer")});
    if (const json::value* below = one.if_contains("below")) {
      list.back().below = json::value_to<std::vector<std::string>>(*below);
    }
    if (one.contains("inside")) list.back().inside = text(one, "inside");
  }
  return list;
}

Result<SessionInfo> decode_info(const json::object& object) {
  SessionInfo info;
  info.id = text(object, "id");
  info.state = to_enum(object.at("state"), SessionState::Dead);
  TRY(info.effective, decode_request(object.at("request").as_object()));
  info.workspaces = decode_workspaces(object.at("workspaces"));
  if (!object.at("policy").is_null()) {
    const json::object& mark = object.at("policy").as_object();
    info.policy = plan::PolicyMark{text(mark, "name"), text(mark, "digest")};
  }
  if (const json::value* parent = object.if_contains("parent")) {
    info.parent = json::value_to<std::string>(*parent);
  }
  info.created_at = from_ns(object.at("created_ns"));
  info.last_run_at = from_ns(object.at("last_run_ns"));
  info.idle_timeout = milliseconds(json::value_to<std::int64_t>(object.at("idle_ms")));
  info.runs = json::value_to<std::uint64_t>(object.at("runs"));
  if (const json::value* missing = object.if_contains("not_enforced")) {
    info.not_enforced = decode_guarantees(*missing);
  }
  info.end = decode_end(object.at("end"));
  return info;
}

}  // namespace

Result<std::string> encode_record(const SessionRecord& record) {
  const SessionInfo& info = record.info;
  json::object object{{"version", kVersion},
                      {"id", info.id},
                      {"state", number(info.state)},
                      {"workspaces", encode(info.workspaces)},
                      {"policy", nullptr},
                      {"parent", info.parent},
                      {"created_ns", ns(info.created_at)},
                      {"last_run_ns", ns(info.last_run_at)},
                      {"idle_ms", info.idle_timeout.count()},
                      {"runs", info.runs},
                      {"not_enforced", encode(info.not_enforced)},
                      {"end", encode_end(info.end)},
                      {"guarantees", encode(record.guarantees)},
                      {"proved", json::value_from(record.proved)},
                      {"terms", encode(record.terms)},
                      {"output_bytes", record.usage.output_bytes},
                      {"cpu_ns", optional_number(record.usage.cpu_ns)},
                      {"peak_memory", optional_number(record.usage.peak_memory_bytes)}};
  TRY(object["request"], encode_request(info.effective));
  if (info.policy) {
    object["policy"] = json::object{{"name", info.policy->name}, {"digest", info.policy->digest}};
  }
  return json::serialize(object);
}

Result<SessionRecord> decode_record(std::string_view text) {
  // Boost.JSON throws for a missing key and a wrong type; both mean that another program wrote
  // this.
  try {
    TRY(const json::value parsed, parse_strict_json(text, kAnyLength));
    const json::object& object = parsed.as_object();
    if (json::value_to<std::int64_t>(object.at("version")) != kVersion) {
      return fail(Code::Unsupported, "a session record of another version");
    }
    SessionRecord record;
    TRY(record.info, decode_info(object));
    record.guarantees = decode_guarantees(object.at("guarantees"));
    if (const json::value* proved = object.if_contains("proved")) {
      record.proved = json::value_to<std::vector<std::string>>(*proved);
    }
    record.terms = decode_guarantees(object.at("terms"));
    record.usage.runs = record.info.runs;
    record.usage.output_bytes = json::value_to<std::uint64_t>(object.at("output_bytes"));
    record.usage.cpu_ns = to_optional<std::uint64_t>(object.at("cpu_ns"));
    record.usage.peak_memory_bytes = to_optional<std::uint64_t>(object.at("peak_memory"));
    return record;
  } catch (const std::exception& problem) {
    return fail(Code::Invalid, "a session record cannot be read: {}", problem.what());
  }
}

}  // namespace glovebox::session
