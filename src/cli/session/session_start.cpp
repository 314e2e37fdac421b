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
using Mode = plan::Workspace::Mode;

const char* mode_word(Mode mode) {
  if (mode == Mode::Read) return "ro";
  return mode == Mode::Write ? "rw" : "overlay";
}

json::object workspace_json(const plan::Workspace& workspace, std::string_view typed) {
  json::object object{{"path", workspace.at.path}};
  if (names_a_mode(typed)) object["mode"] = mode_word(workspace.mode);
  if (workspace.mode == Mode::Discard) object["persist"] = false;
  return object;
}

Result<void> add_places(const RunOptions& box, json::object& body) {
  TRY(const std::vector<plan::Workspace> places, parse_workspaces(box));
  json::array overlays, binds;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i < box.workspaces.size()) {
      overlays.push_back(workspace_json(places[i], box.workspaces[i]));
      continue;
    }
    if (places[i].mode != Mode::Read && places[i].mode != Mode::Write) {
      return fail(Code::Unsupported, "--bind {}: in a session a bind is ro or rw",
                  box.binds[i - box.workspaces.size()]);
    }
    binds.push_back(json::object{{"source", places[i].at.path},
                                 {"dest", places[i].path_inside()},
                                 {"readonly", places[i].mode == Mode::Read}});
  }
  body["overlays"] = std::move(overlays);
  if (!binds.empty()) body["binds"] = std::move(binds);
  return {};
}

Result<void> add_policy(const RunOptions& box, json::object& body) {
  if (!box.if_policy.empty()) body["if_policy"] = box.if_policy;
  if (box.policy.empty()) return {};
  const policy::Reference reference = policy::parse_reference(box.policy);
  if (reference.kind == policy::Reference::Kind::Template) {
    body["policy"] = box.policy;
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

Result<void> add_authority(const RunOptions& box, json::object& body) {
  TRY(const authority::AuthoritySet handed, handed_authority(box));
  TRY(const authority::AuthoritySet set, with_values(handed));
  if (!set.rules().empty()) {
    TRY(body["capabilities"], authority::to_json(set));
  }
  if (!box.cpus.empty()) body["limits"] = json::object{{"cpus", box.cpus}};
  return {};
}

Result<void> add_ids(const RunOptions& box, json::object& body) {
  for (const auto& [name, text] : {std::pair("uid", &box.uid), std::pair("gid", &box.gid)}) {
    if (text->empty()) continue;
    TRY(const std::uint64_t id, parse_count(*text));
    body[name] = id;
  }
  return {};
}

Result<void> add_words(const SessionOptions& options, json::object& body) {
  if (!options.name.empty()) body["name"] = options.name;
  if (options.prove) body["prove"] = true;
  if (!options.box.backend.empty()) body["backend"] = options.box.backend;
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

// Words of `run` that a session has no place for yet: better refused than ignored.
Result<void> check_words(const RunOptions& box) {
  const std::pair<const char*, bool> unused[] = {
      {"--waive", !box.waive.empty()},     {"--cwd", !box.cwd.empty()},
      {"--no-loopback", box.no_loopback},  {"--resolver", !box.resolver.empty()},
      {"--publish", !box.publish.empty()}, {"--hostname", box.hostname != "box"}};
  for (const auto& [name, given] : unused) {
    if (given) return fail(Code::Unsupported, "{} is for 'run'; a session does not take it", name);
  }
  return {};
}

}  // namespace

Result<std::string> session_request_json(const SessionOptions& options) {
  json::object body;
  TRY_VOID(check_words(options.box));
  TRY_VOID(add_words(options, body));
  TRY_VOID(add_places(options.box, body));
  TRY_VOID(add_policy(options.box, body));
  TRY_VOID(add_authority(options.box, body));
  TRY_VOID(add_ids(options.box, body));
  return json::serialize(body);
}

}  // namespace glovebox::app
