#include "session/state/snapshot.h"

#include "base/strict_json.h"
#include "session/store/session_json.h"

#include <algorithm>
#include <array>

namespace glovebox::session {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kDeepest = 12;
constexpr std::array<std::string_view, 3> kKinds{"config", "files", "memory"};

json::array encode_env(const std::vector<plan::EnvEntry>& env) {
  json::array list;
  for (const plan::EnvEntry& entry : env) {
    list.push_back(json::object{{"name", entry.name}, {"value", entry.value}});
  }
  return list;
}

Result<std::vector<plan::EnvEntry>> decode_env(const json::array& list) {
  std::vector<plan::EnvEntry> env;
  for (const json::value& item : list) {
    TRY(JsonFields fields, JsonFields::of(item, "env"));
    plan::EnvEntry entry;
    TRY(entry.name, fields.text("name"));
    TRY(entry.value, fields.text("value"));
    TRY_VOID(fields.finish());
    env.push_back(std::move(entry));
  }
  return env;
}

json::value encode_shell(const std::optional<ShellState>& shell) {
  if (!shell) return nullptr;
  return json::object{{"cwd", shell->cwd}, {"env", encode_env(shell->env)}};
}

Result<std::optional<ShellState>> decode_shell(const json::value* value) {
  if (value == nullptr || value->is_null()) return std::optional<ShellState>();
  TRY(JsonFields fields, JsonFields::of(*value, "shell"));
  ShellState shell;
  TRY(shell.cwd, fields.text("cwd"));
  TRY(const json::array* env, fields.array("env"));
  TRY(shell.env, decode_env(*env));
  TRY_VOID(fields.finish());
  return std::optional<ShellState>(std::move(shell));
}

json::array encode_layers(const std::vector<LayerManifest>& layers) {
  json::array list;
  for (const LayerManifest& layer : layers) {
    list.push_back(json::object{
        {"workspace", layer.workspace}, {"entries", layer.entries}, {"bytes", layer.bytes}});
  }
  return list;
}

Result<std::vector<LayerManifest>> decode_layers(const json::array& list) {
  std::vector<LayerManifest> layers;
  for (const json::value& item : list) {
    TRY(JsonFields fields, JsonFields::of(item, "layers"));
    LayerManifest layer;
    TRY(layer.workspace, fields.text("workspace"));
    TRY(layer.entries, fields.integer("entries"));
    TRY(layer.bytes, fields.integer("bytes"));
    TRY_VOID(fields.finish());
    layers.push_back(std::move(layer));
  }
  return layers;
}

Result<std::vector<StateKind>> decode_state(const json::array& list) {
  std::vector<StateKind> state;
  for (const json::value& item : list) {
    TRY(const std::string_view word, json_text(item, "state"));
    TRY(const StateKind kind, parse_state_kind(word));
    state.push_back(kind);
  }
  return state;
}

Result<std::optional<plan::PolicyMark>> decode_policy(const json::value* value) {
  if (value == nullptr || value->is_null()) return std::optional<plan::PolicyMark>();
  TRY(JsonFields fields, JsonFields::of(*value, "policy"));
  plan::PolicyMark mark;
  TRY(mark.name, fields.text("name"));
  TRY(mark.digest, fields.text("digest"));
  TRY_VOID(fields.finish());
  return std::optional<plan::PolicyMark>(std::move(mark));
}

Result<Snapshot> decode_fields(JsonFields& fields) {
  TRY(const std::uint64_t version, fields.integer("version"));
  if (version != kVersion) {
    return fail(Code::Unsupported, "a snapshot of version {}; this program knows {}", version,
                kVersion);
  }
  Snapshot snapshot;
  TRY(snapshot.id, fields.text("id"));
  TRY(snapshot.parent, fields.text("parent"));
  TRY(const json::object* spec, fields.object("spec"));
  TRY(snapshot.spec, decode_request(*spec));
  TRY(const json::array* env, fields.array("env"));
  TRY(snapshot.spec.env, decode_env(*env));
  TRY(snapshot.spec.policy.document, fields.text("document"));
  TRY(snapshot.policy, decode_policy(fields.find("policy")));
  TRY(snapshot.shell, decode_shell(fields.find("shell")));
  TRY(const json::array* layers, fields.array("layers"));
  TRY(snapshot.layers, decode_layers(*layers));
  TRY(const json::array* state, fields.array("state"));
  TRY(snapshot.state, decode_state(*state));
  TRY_VOID(fields.finish());
  return snapshot;
}

}  // namespace

std::string_view to_text(StateKind kind) { return kKinds.at(static_cast<std::size_t>(kind)); }

Result<StateKind> parse_state_kind(std::string_view text) {
  const auto found = std::ranges::find(kKinds, text);
  if (found == kKinds.end()) {
    return fail(Code::Invalid, "'{}' is no kind of state: there are config, files and memory",
                text);
  }
  return static_cast<StateKind>(found - kKinds.begin());
}

Result<std::string> encode_snapshot(const Snapshot& snapshot) {
  json::object object{{"version", kVersion},
                      {"id", snapshot.id},
                      {"parent", snapshot.parent},
                      {"env", encode_env(snapshot.spec.env)},
                      {"document", snapshot.spec.policy.document},
                      {"policy", nullptr},
                      {"shell", encode_shell(snapshot.shell)},
                      {"layers", encode_layers(snapshot.layers)}};
  TRY(object["spec"], encode_request(snapshot.spec));
  if (snapshot.policy) {
    object["policy"] =
        json::object{{"name", snapshot.policy->name}, {"digest", snapshot.policy->digest}};
  }
  json::array state;
  for (const StateKind kind : snapshot.state) state.emplace_back(to_text(kind));
  object["state"] = std::move(state);
  std::string text = json::serialize(object);
  if (text.size() > kMaxSnapshotBytes) {
    return fail(Code::Exhausted, "a snapshot of {} bytes; {} is the most", text.size(),
                kMaxSnapshotBytes);
  }
  return text;
}

Result<Snapshot> decode_snapshot(std::string_view text) {
  TRY(const json::value value,
      parse_strict_json(text, {.max_bytes = kMaxSnapshotBytes, .max_depth = kDeepest}));
  TRY(JsonFields fields, JsonFields::of(value, "snapshot"));
  // Boost.JSON throws for a missing key and a wrong type in the part about the request.
  try {
    return decode_fields(fields);
  } catch (const std::exception& problem) {
    return fail(Code::Invalid, "snapshot: the request cannot be read: {}", problem.what());
  }
}

}  // namespace glovebox::session
