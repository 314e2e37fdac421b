#include "cli/session/session_start.h"

#include "authority/json_codec.h"
#include "base/file.h"
#include "base/quantity.h"
#include "policy/load.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <cstdlib>

namespace glovebox::app {
namespace {

namespace json = boost::json;

json::object workspace_json(const session::WorkspaceRequest& workspace) {
  json::object object{{"path", workspace.path}};
  if (workspace.mode) object["mode"] = to_text(*workspace.mode);
  return object;
}

void add_places(const session::BoxRequest& box, json::object& body) {
  json::array overlays, binds;
  for (const session::WorkspaceRequest& one : box.workspaces) {
    overlays.push_back(workspace_json(one));
  }
  for (const session::BindRequest& one : box.binds) {
    binds.push_back(json::object{{"source", one.source},
                                 {"dest", one.dest.empty() ? one.source : one.dest},
                                 {"mode", to_text(one.mode)}});
  }
  body["overlays"] = std::move(overlays);
  if (!binds.empty()) body["binds"] = std::move(binds);
}

// A file is the caller's, so it is read here: the service may not see it.
Result<void> add_policy(const session::PolicyChoice& policy, json::object& body) {
  if (!policy.if_digest.empty()) body["if_policy"] = policy.if_digest;
  if (policy.name.empty()) return {};
  const policy::Reference reference = policy::parse_reference(policy.name);
  if (reference.kind == policy::Reference::Kind::Template) {
    body["policy"] = policy.name;
    return {};
  }
  TRY(std::string text, read_file(reference.source));
  body["policy"] = json::object{{"document", std::move(text)}, {"sandbox", reference.sandbox}};
  return {};
}

// A variable that is named without a value is the caller's, so its value goes along.
Result<authority::AuthoritySet> with_values(const authority::AuthoritySet& set) {
  std::vector<authority::Rule> rules = set.rules();
  for (authority::Rule& rule : rules) {
    auto* env = std::get_if<authority::Env>(&rule.capability);
    if (env == nullptr || env->value || rule.effect != authority::Effect::Allow) continue;
    const char* value = std::getenv(env->name.text().c_str());
    if (value == nullptr) continue;
    TRY(env->value, authority::EnvValue::parse(value));
  }
  return authority::AuthoritySet::from_rules(rules);
}

Result<void> add_authority(const session::BoxRequest& box, json::object& body) {
  TRY(const authority::AuthoritySet set, with_values(box.handed));
  if (!set.rules().empty()) {
    TRY(body["capabilities"], authority::to_json(set));
  }
  if (box.cpus_milli) {
    body["limits"] = json::object{
        {"cpus", fmt::format("{}.{:03}", *box.cpus_milli / 1000, *box.cpus_milli % 1000)}};
  }
  if (box.uid) body["uid"] = *box.uid;
  if (box.gid) body["gid"] = *box.gid;
  return {};
}

template <class Range, class ToText>
void add_texts(const Range& values, const char* member, ToText to_text, json::object& body) {
  json::array texts;
  for (const auto& value : values) texts.push_back(json::value(to_text(value)));
  if (!texts.empty()) body[member] = std::move(texts);
}

void add_surroundings(const session::BoxRequest& box, json::object& body) {
  if (box.backend) body["backend"] = to_text(*box.backend);
  if (box.hostname != session::BoxRequest().hostname) body["hostname"] = box.hostname;
  if (box.cwd) body["cwd"] = *box.cwd;
  if (box.loopback == plan::Loopback::Down) body["loopback"] = false;
  if (!box.resolver.empty()) body["resolver"] = box.resolver;
  add_texts(box.waived, "waive", [](const std::string& name) { return name; }, body);
  add_texts(
      box.published, "publish", [](const plan::Publication& port) { return plan::to_text(port); },
      body);
}

Result<void> add_words(const SessionOptions& options, json::object& body) {
  if (!options.name.empty()) body["name"] = options.name;
  if (options.prove) body["prove"] = true;
  if (!options.idle.empty()) {
    std::uint64_t seconds = 0;
    if (options.idle != "0") {
      TRY(const std::chrono::nanoseconds idle, parse_duration(options.idle));
      seconds = static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::seconds>(idle).count());
      if (seconds == 0) return fail(Code::Invalid, "--idle {}: at least 1s, or 0", options.idle);
    }
    body["idle_timeout_seconds"] = seconds;
  }
  json::object labels;
  for (const std::string& label : options.labels) {
    const std::size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(Code::Invalid, "--label '{}' is not NAME=VALUE", label);
    }
    labels[label.substr(0, equals)] = label.substr(equals + 1);
  }
  if (!labels.empty()) body["labels"] = std::move(labels);
  return {};
}

}  // namespace

Result<std::string> session_request_json(const SessionOptions& options) {
  json::object body;
  TRY(const session::BoxRequest box, to_request(options.box));
  TRY_VOID(add_words(options, body));
  add_places(box, body);
  TRY_VOID(add_policy(box.policy, body));
  TRY_VOID(add_authority(box, body));
  add_surroundings(box, body);
  return json::serialize(body);
}

}  // namespace glovebox::app
