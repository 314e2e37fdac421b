#include "serve/bodies/create_body.h"

#include "authority/capability.h"
#include "authority/json_codec.h"
#include "authority/terms.h"
#include "base/glob.h"
#include "base/quantity.h"

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <array>
#include <limits>

namespace glovebox::serve {
namespace {

using boost::json::value;

constexpr std::int64_t kMaxId = std::numeric_limits<std::uint32_t>::max() - 1;
constexpr std::int64_t kMaxIdleSeconds = 10LL * 365 * 24 * 3600;

// Names of secrets, as globs, without regard to case.
constexpr std::array kSecretNames = {"*_API_KEY", "*_TOKEN",  "*_SECRET", "*_PASSWORD", "AWS_*",
                                     "ALI_*",     "ALIYUN_*", "K8S_*",    "KUBE_*"};
// Never passed on: the service's own, and what means something else or nothing inside a box.
constexpr std::array kOutsideNames = {
    "EXECD_*",  "GLOVEBOX_*",    "JUPYTER_HOST",  "JUPYTER_TOKEN", "HOME",     "USER",
    "LOGNAME",  "SHELL",         "PWD",           "OLDPWD",        "SHLVL",    "_",
    "PATH",     "TMPDIR",        "LD_*",          "XDG_*",         "DBUS_*",   "SSH_*",
    "LISTEN_*", "NOTIFY_SOCKET", "BASH_*",        "ENV",           "HOSTNAME", "TERM",
    "MAIL",     "INVOCATION_ID", "JOURNAL_STREAM"};

template <class Globs>
bool matches_any(const Globs& globs, const std::string& name) {
  return std::ranges::any_of(globs, [&](const char* glob) {
    return GlobPattern::parse(glob, {.letters = GlobCase::Folded}).value().matches(name);
  });
}

void check_absolute(std::string_view path, std::string_view where, BodyProblems& problems) {
  if (!path.starts_with('/')) problems.add("'{}' is an absolute path", where);
  if (path.find('\0') != std::string_view::npos) problems.add("'{}' holds a NUL byte", where);
}

std::optional<WorkspaceMode> read_mode(ObjectReader& reader) {
  const auto mode = reader.text("mode");
  if (!mode) return std::nullopt;
  auto parsed = parse_workspace_mode(*mode);
  if (parsed) return *parsed;
  reader.wrong("mode", "one of rw, overlay, discard, ro");
  return std::nullopt;
}

session::WorkspaceRequest read_workspace(const value& body, const std::string& where,
                                         BodyProblems& problems, Unknown unknown) {
  session::WorkspaceRequest workspace;
  ObjectReader reader(body, where + ".", problems, unknown);
  const auto path = reader.text("path");
  workspace.path = path.value_or("");
  if (!path || path->empty()) {
    problems.add("'{}.path' is required", where);
  } else {
    check_absolute(*path, where + ".path", problems);
  }
  workspace.mode = read_mode(reader);
  if (const auto persist = reader.flag("persist")) {
    if (workspace.mode.value_or(WorkspaceMode::Overlay) != WorkspaceMode::Overlay) {
      problems.add("'{}.persist' is for mode overlay alone", where);
    }
    if (!*persist) workspace.mode = WorkspaceMode::Discard;
  }
  return workspace;
}

void read_workspaces(ObjectReader& reader, CreateOrder& order, BodyProblems& problems,
                     Unknown unknown) {
  if (const value* workspace = reader.find("workspace")) {
    order.session.workspaces.push_back(read_workspace(*workspace, "workspace", problems, unknown));
  }
  reader.each("overlays", [&](const value& element, const std::string& where) {
    order.session.workspaces.push_back(read_workspace(element, where, problems, unknown));
  });
  // The default is the strong one, whatever a policy says about its own default.
  for (session::WorkspaceRequest& workspace : order.session.workspaces) {
    if (!workspace.mode && order.session.policy == session::PolicyChoice{}) {
      workspace.mode = WorkspaceMode::Overlay;
    }
  }
  // No workspace at all is a choice that has to be said: "overlays": [].
  if (order.session.workspaces.empty() && reader.find("overlays") == nullptr &&
      reader.find("python") == nullptr) {
    problems.add("'workspace' is required");
  }
}

void read_binds(ObjectReader& reader, CreateOrder& order, BodyProblems& problems, Unknown unknown) {
  order.extra_writable = reader.texts("extra_writable");
  for (const std::string& path : order.extra_writable) {
    check_absolute(path, "extra_writable", problems);
    order.session.binds.push_back({.source = path, .dest = path, .mode = WorkspaceMode::Write});
  }
  reader.each("binds", [&](const value& element, const std::string& where) {
    ObjectReader bind(element, where + ".", problems, unknown);
    session::BindRequest request;
    request.source = bind.text("source").value_or("");
    if (request.source.empty()) {
      problems.add("'{}.source' is required", where);
    } else {
      check_absolute(request.source, where + ".source", problems);
    }
    request.dest = bind.text("dest").value_or(request.source);
    if (!request.dest.empty()) check_absolute(request.dest, where + ".dest", problems);
    const auto readonly = bind.flag("readonly");
    request.mode = readonly.value_or(false) ? WorkspaceMode::Read : WorkspaceMode::Write;
    if (const auto mode = read_mode(bind)) {
      if (readonly) problems.add("'{}': give 'mode' or 'readonly', not both", where);
      request.mode = *mode;
    }
    order.session.binds.push_back(std::move(request));
  });
}

void read_env(ObjectReader& reader, CreateOrder& order, BodyProblems& problems, Unknown unknown) {
  const value* passthrough = reader.find("env_passthrough");
  if (passthrough == nullptr) return;
  ObjectReader env(*passthrough, "env_passthrough.", problems, unknown);
  const auto mode = env.text("mode");
  order.env.keys = env.texts("keys");
  if (!mode) {
    order.env.keys.clear();  // keys mean nothing without a mode
  } else if (*mode == "allow") {
    order.env.mode = EnvPassthrough::Mode::Allow;
  } else if (*mode != "deny") {
    env.wrong("mode", "one of allow, deny");
  }
}

// A document as its sender could have written it. The library writes 1.0 as 1E0, which no reader of
// policies takes for a number.
std::string document_text(const value& part) {
  if (const double* number = part.if_double()) return fmt::format("{}", *number);
  const bool is_object = part.is_object();
  if (!is_object && !part.is_array()) return boost::json::serialize(part);
  std::vector<std::string> items;
  if (is_object) {
    for (const auto& member : part.as_object()) {
      items.push_back(boost::json::serialize(member.key()) + ":" + document_text(member.value()));
    }
  } else {
    for (const value& item : part.as_array()) items.push_back(document_text(item));
  }
  return fmt::format("{}{}{}", is_object ? '{' : '[', fmt::join(items, ","), is_object ? '}' : ']');
}

void read_policy(ObjectReader& reader, CreateOrder& order, BodyProblems& problems,
                 Unknown unknown) {
  session::PolicyChoice& policy = order.session.policy;
  policy.if_digest = reader.text("if_policy").value_or("");
  const value* chosen = reader.find("policy");
  if (chosen == nullptr) {
    if (!policy.if_digest.empty()) problems.add("'if_policy' needs 'policy'");
    return;
  }
  if (chosen->is_string()) {
    policy.name = reader.text("policy").value_or("");
    return;
  }
  ObjectReader inner(*chosen, "policy.", problems, unknown);
  policy.name = inner.text("name").value_or("");
  policy.sandbox = inner.text("sandbox").value_or("");
  if (const value* document = inner.find("document")) {
    policy.document =
        document->is_object() ? document_text(*document) : inner.text("document").value_or("");
  }
  if (policy.name.empty() == policy.document.empty()) {
    problems.add("'policy' is a name, or an object with either 'name' or 'document'");
  }
}

std::optional<authority::Capability> read_budget(const authority::BudgetInfo& info,
                                                 const value& amount) {
  std::uint64_t number = 0;
  if (const boost::json::string* text = amount.if_string()) {
    const auto parsed =
        authority::parse_amount(info.kind, std::string_view(text->data(), text->size()));
    if (!parsed) return std::nullopt;
    number = *parsed;
  } else {
    boost::json::error_code no_number;
    number = amount.to_number<std::uint64_t>(no_number);
    if (no_number) return std::nullopt;
  }
  auto made = authority::make_budget(info.kind, number);
  if (!made) return std::nullopt;
  return *std::move(made);
}

std::string_view example_of(authority::Unit unit) {
  switch (unit) {
    case authority::Unit::Milliseconds: return "\"30s\"";
    case authority::Unit::Bytes: return "\"256MiB\"";
    case authority::Unit::Count: return "64";
    case authority::Unit::PerSecond: return "\"20/s\"";
  }
  return "";
}

void read_limits(ObjectReader& reader, CreateOrder& order,
                 std::vector<authority::Capability>& handed, BodyProblems& problems,
                 Unknown unknown) {
  const value* limits = reader.find("limits");
  if (limits == nullptr) return;
  ObjectReader inner(*limits, "limits.", problems, unknown);
  for (const authority::BudgetInfo& info : authority::kBudgets) {
    const value* amount = inner.find(info.word);
    if (amount == nullptr) continue;
    auto budget = read_budget(info, *amount);
    if (budget) {
      handed.push_back(*std::move(budget));
    } else {
      inner.wrong(info.word, fmt::format("an amount such as {}", example_of(info.unit)));
    }
  }
  if (const value* cpus = inner.find("cpus")) {
    const std::string text =
        cpus->is_string() ? std::string(cpus->as_string()) : boost::json::serialize(*cpus);
    const auto milli = parse_thousandths(text);
    // Serialized numbers may come with an exponent, which is no amount a person writes.
    const double number = cpus->is_double() ? cpus->as_double() : 0;
    if (milli) {
      order.session.cpus_milli = *milli;
    } else if (number >= 0.001 && number < 10'000) {
      order.session.cpus_milli = static_cast<std::uint64_t>(number * 1'000);
    } else {
      inner.wrong("cpus", "a number such as 1.5");
    }
  }
}

void read_capabilities(ObjectReader& reader, std::vector<authority::Capability>& handed,
                       CreateOrder& order, BodyProblems& problems) {
  const value* capabilities = reader.find("capabilities");
  if (capabilities == nullptr) return;
  if (capabilities->is_object()) {
    auto set = authority::set_from_json(*capabilities);
    if (!set) return problems.add("'capabilities': {}", set.error().message);
    order.session.handed = *std::move(set);
    return;
  }
  reader.each("capabilities", [&](const value& element, const std::string& where) {
    auto capability = authority::capability_from_json(element);
    if (capability) {
      handed.push_back(*std::move(capability));
    } else {
      problems.add("'{}': {}", where, capability.error().message);
    }
  });
}

}  // namespace

void read_authority(ObjectReader& reader, CreateOrder& order, BodyProblems& problems,
                    Unknown unknown) {
  std::vector<authority::Capability> handed;
  read_limits(reader, order, handed, problems, unknown);
  read_capabilities(reader, handed, order, problems);
  auto granted = authority::AuthoritySet::granting(handed);
  if (!granted) return problems.add("'capabilities': {}", granted.error().message);
  order.session.handed = order.session.handed.unite(*granted);
}

namespace {

void read_identity(ObjectReader& reader, CreateOrder& order) {
  if (const auto uid = reader.number("uid", 0, kMaxId))
    order.session.uid = static_cast<uid_t>(*uid);
  if (const auto gid = reader.number("gid", 0, kMaxId))
    order.session.gid = static_cast<gid_t>(*gid);
  if (const auto mode = reader.text("uid_mode")) {
    if (*mode == "setpriv" || *mode == "userns") {
      order.uid_mode = *mode;
    } else {
      reader.wrong("uid_mode", "one of setpriv, userns");
    }
  }
}

void read_labels(ObjectReader& reader, CreateOrder& order, BodyProblems& problems) {
  order.session.name = reader.text("name").value_or("");
  order.session.prove = reader.flag("prove").value_or(false);
  for (Field& label : reader.text_map("labels")) {
    if (label.name.starts_with(kOwnLabels)) {
      problems.add("'labels.{}': names that begin with '{}' are the service's own", label.name,
                   kOwnLabels);
    }
    order.session.labels.emplace(std::move(label.name), std::move(label.value));
  }
}

void read_python(ObjectReader& reader, CreateOrder& order, BodyProblems& problems,
                 Unknown unknown) {
  const value* python = reader.find("python");
  if (python == nullptr) return;
  ObjectReader inner(*python, "python.", problems, unknown);
  session::PythonRequest request;
  if (auto interpreter = inner.text("interpreter")) request.interpreter = *std::move(interpreter);
  request.preload = inner.texts("preload");
  order.session.python = std::move(request);
}

void read_settings(ObjectReader& reader, CreateOrder& order) {
  if (const auto profile = reader.text("profile")) {
    if (*profile == "balanced") {
      order.profile = Profile::Balanced;
    } else if (*profile != "strict") {
      reader.wrong("profile", "one of strict, balanced");
    }
  }
  if (const auto idle = reader.number("idle_timeout_seconds", 0, kMaxIdleSeconds)) {
    order.session.idle_timeout = std::chrono::seconds(*idle);
  }
  if (const auto backend = reader.text("backend")) {
    if (const auto parsed = parse_backend(*backend)) {
      order.session.backend = *parsed;
    } else {
      reader.wrong("backend", "one of process, cell, microvm");
    }
  }
}

// What the box is like beside what it may do.
void read_surroundings(ObjectReader& reader, CreateOrder& order, BodyProblems& problems) {
  session::BoxRequest& box = order.session;
  if (auto hostname = reader.text("hostname")) box.hostname = *std::move(hostname);
  if (auto cwd = reader.text("cwd")) {
    check_absolute(*cwd, "cwd", problems);
    box.cwd = *std::move(cwd);
  }
  if (!reader.flag("loopback").value_or(true)) box.loopback = plan::Loopback::Down;
  box.resolver = reader.text("resolver").value_or("");
  for (std::string& name : reader.texts("waive")) box.waived.insert(std::move(name));
  for (const std::string& text : reader.texts("publish")) {
    auto port = plan::parse_publication(text);
    if (port) {
      box.published.push_back(*std::move(port));
    } else {
      problems.add("'publish': {}", port.error().message);
    }
  }
}

}  // namespace

std::string_view to_text(Profile profile) {
  return profile == Profile::Strict ? "strict" : "balanced";
}

std::string_view to_text(EnvPassthrough::Mode mode) {
  return mode == EnvPassthrough::Mode::Deny ? "deny" : "allow";
}

Result<CreateOrder, ApiError> read_create_order(const value& body, Unknown unknown) {
  CreateOrder order;
  BodyProblems problems;
  bool share_net = false;
  {
    ObjectReader reader(body, "", problems, unknown);
    read_policy(reader, order, problems, unknown);
    read_workspaces(reader, order, problems, unknown);
    read_binds(reader, order, problems, unknown);
    read_env(reader, order, problems, unknown);
    read_authority(reader, order, problems, unknown);
    read_identity(reader, order);
    read_labels(reader, order, problems);
    read_settings(reader, order);
    read_surroundings(reader, order, problems);
    read_python(reader, order, problems, unknown);
    share_net = reader.flag("share_net").value_or(false);
  }
  TRY_VOID(problems.check());
  if (share_net) order.session.handed = order.session.handed.unite(public_network());
  return order;
}

authority::AuthoritySet public_network() {
  using authority::Effect;
  std::vector<authority::Rule> rules{{Effect::Allow, *authority::parse_term("connect=*:1-65535")}};
  for (const char* network :
       {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "[fc00::/7]"}) {
    rules.push_back(
        {Effect::Deny, *authority::parse_term(fmt::format("connect={}:1-65535", network))});
  }
  auto set = authority::AuthoritySet::from_rules(rules);
  GLOVEBOX_CHECK(set.has_value());
  return *std::move(set);
}

bool shares_network(const authority::AuthoritySet& handed) {
  return handed.decide(*authority::parse_term("connect=*:1-65535")).effect ==
         authority::Effect::Allow;
}

void hide_in_labels(const CreateOrder& order, std::string_view owner,
                    std::map<std::string, std::string>& labels) {
  labels["execd.profile"] = to_text(order.profile);
  labels["execd.uid_mode"] = order.uid_mode;
  labels["execd.env_mode"] = to_text(order.env.mode);
  labels["execd.extra_writable"] = std::to_string(order.extra_writable.size());
  labels[std::string(kOwnerLabel)] = owner;
  std::string keys;
  for (const std::string& key : order.env.keys) keys += (keys.empty() ? "" : ",") + key;
  if (!keys.empty() && keys.size() <= session::kMaxLabelBytes) labels["execd.env_keys"] = keys;
  for (std::size_t i = 0; i < order.resolved_workspaces.size(); ++i) {
    const std::string& asked = order.session.workspaces.at(i).path;
    if (asked == order.resolved_workspaces[i] || asked.size() > session::kMaxLabelBytes) continue;
    labels[fmt::format("{}{}", kAskedPathLabel, i)] = asked;
  }
}

std::vector<plan::EnvEntry> passed_environment(const EnvPassthrough& rules,
                                               const std::vector<std::string>& environment,
                                               const std::vector<std::string>& secrets) {
  std::vector<plan::EnvEntry> passed;
  for (const std::string& entry : environment) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    const std::string name = entry.substr(0, equals);
    const bool listed = std::ranges::find(rules.keys, name) != rules.keys.end();
    const bool wanted = rules.mode == EnvPassthrough::Mode::Allow
                            ? listed
                            : !listed && !matches_any(kSecretNames, name);
    if (!wanted || matches_any(kOutsideNames, name)) continue;
    // Functions that a shell exported, for example: a session takes no such names.
    if (!authority::EnvName::parse(name)) continue;
    if (std::ranges::find(secrets, name) != secrets.end()) continue;
    passed.push_back({name, entry.substr(equals + 1)});
  }
  return passed;
}

}  // namespace glovebox::serve
