#include "cli/run_options.h"

#include "authority/terms.h"
#include "base/quantity.h"
#include "host/path_facts.h"

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <filesystem>

namespace glovebox::app {
namespace {

constexpr std::uint64_t kHighestId = 0xfffffffd;

// Parses `text` into `field` when it was given at all, and says which option was wrong.
template <class Field, class Parse>
Result<void> parse_into(std::optional<Field>& field, const std::string& text, const char* option,
                        Parse parse) {
  if (text.empty()) return {};
  auto value = parse(text);
  if (!value) return fail(Code::Invalid, "{}: {}", option, value.error().message);
  field = static_cast<Field>(*value);
  return {};
}

std::string not_empty(const std::string& value) {
  return value.empty() ? "an empty value means nothing" : "";
}

Result<std::uint64_t> parse_id(std::string_view text) {
  TRY(const std::uint64_t id, parse_count(text));
  if (id > kHighestId) return fail(Code::Invalid, "'{}' is not a user or group id", text);
  return id;
}

using authority::Effect;
using authority::Rule;

Result<host::PathFacts> look_up_typed(const std::string& path, const char* option) {
  auto facts = host::look_up_from_here(path);
  if (facts) return facts;
  Error error = std::move(facts).error();
  error.message = fmt::format("{} {}", option, error.message);
  return tl::unexpected(std::move(error));
}

// Takes a mode off the end of DIR:MODE.
std::optional<WorkspaceMode> take_mode(std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto mode = parse_workspace_mode(std::string_view(text).substr(colon + 1));
  if (!mode) return std::nullopt;  // the colon is part of a name
  text.resize(colon);
  return *mode;
}

// DIR[:MODE]. A file has no layer and no directory to start in: it is shown at its own path.
Result<void> add_workspace(std::string text, session::BoxRequest& request) {
  const auto mode = take_mode(text);
  TRY(host::PathFacts found, look_up_typed(text, "--workspace"));
  if (found.kind == host::PathKind::Directory) {
    request.workspaces.push_back({std::move(found.path), mode, session::IfMissing::Refuse});
  } else {
    const auto usual = WorkspaceMode::Overlay;
    request.binds.push_back({std::move(found.path), "", mode.value_or(usual)});
  }
  return {};
}

// PATH:INSIDE[:MODE]. Without a mode it can only be read.
Result<void> add_bind(std::string text, session::BoxRequest& request) {
  const auto mode = take_mode(text);
  const std::size_t colon = text.rfind(":/");
  if (colon == std::string::npos || colon == 0) {
    return fail(Code::Invalid, "--bind '{}' is not PATH:INSIDE, with an absolute path inside",
                text);
  }
  TRY(host::PathFacts found, look_up_typed(text.substr(0, colon), "--bind"));
  std::string inside = text.substr(colon + 1);
  const bool starts_there = request.workspaces.empty() && request.binds.empty() && !request.cwd &&
                            found.kind == host::PathKind::Directory;
  if (starts_there) request.cwd = inside;
  request.binds.push_back(
      {std::move(found.path), std::move(inside), mode.value_or(WorkspaceMode::Read)});
  return {};
}

Result<void> add_places(const RunOptions& options, session::BoxRequest& request) {
  for (const std::string& text : options.workspaces) TRY_VOID(add_workspace(text, request));
  for (const std::string& text : options.binds) TRY_VOID(add_bind(text, request));
  return {};
}

// What the words of a command line hand in, rule by rule.
class Handed {
 public:
  explicit Handed(const RunOptions& options) : options_(options) {}

  Result<std::vector<Rule>> rules() {
    for (const std::string& path : options_.read) TRY_VOID(grant("--read", "read", path));
    for (const std::string& path : options_.write) TRY_VOID(grant("--write", "write", path));
    for (const std::string& text : options_.env) TRY_VOID(variable(text));
    for (const std::string& term : options_.allow) TRY_VOID(term_rule("--allow", term));
    for (const std::string& term : options_.deny) TRY_VOID(term_rule("--deny", term));
    TRY_VOID(budgets());
    return std::move(rules_);
  }

 private:
  Result<void> add(const char* option, Effect effect, std::string_view word,
                   std::string_view value) {
    auto capability = authority::parse_term(word, value);
    if (!capability) return fail(Code::Invalid, "{} {}", option, capability.error().message);
    rules_.push_back({effect, *std::move(capability)});
    return {};
  }

  // A path that a person typed: relative to here, and it must exist.
  Result<void> grant(const char* option, std::string_view word, const std::string& path) {
    TRY(const host::PathFacts facts, look_up_typed(path, option));
    return add(option, Effect::Allow, word, facts.path);
  }

  // NAME=VALUE, or NAME for the caller's own value, which must be set.
  Result<void> variable(const std::string& text) {
    if (text.find('=') == std::string::npos && std::getenv(text.c_str()) == nullptr) {
      return fail(Code::NotFound, "--env {}: not set here (give it a value: --env {}=VALUE)", text,
                  text);
    }
    return add("--env", Effect::Allow, "env", text);
  }

  // KIND=VALUE, or KIND alone for those that take no value. A relative path starts here.
  Result<void> term_rule(const char* option, const std::string& term) {
    const std::size_t equals = term.find('=');
    const std::string word = term.substr(0, equals);
    std::string value = equals == std::string::npos ? "" : term.substr(equals + 1);
    const bool path = word == "read" || word == "write" || word == "exec" || word == "unix";
    if (path && value.starts_with('~')) {
      return fail(Code::Invalid, "{} {}: '~' is the shell's; write {}=\"$HOME\"... instead", option,
                  term, word);
    }
    if (path && !value.empty() && value.front() != '/') {
      value = (std::filesystem::current_path() / value).lexically_normal();
    }
    const Effect effect = option == std::string_view("--deny") ? Effect::Deny : Effect::Allow;
    if (equals == std::string::npos && path) {
      return fail(Code::Invalid, "{} {}: say which, as in {}=/some/path", option, term, word);
    }
    return add(option, effect, word, value);
  }

  Result<void> budgets() {
    const std::pair<const char*, const std::string&> given[] = {
        {"--memory", options_.memory},
        {"--pids", options_.pids},
        {"--cpu-time", options_.cpu_time},
        {"--wall", options_.wall},
        {"--output-limit", options_.output_limit},
        {"--open-files", options_.open_files},
        {"--disk", options_.disk},
        {"--inodes", options_.inodes}};
    constexpr const char* kWords[] = {"memory", "pids",       "cpu",  "wall",
                                      "output", "open_files", "disk", "inodes"};
    for (std::size_t i = 0; i < std::size(given); ++i) {
      if (given[i].second.empty()) continue;
      TRY_VOID(add(given[i].first, Effect::Allow, kWords[i], given[i].second));
    }
    return {};
  }

  const RunOptions& options_;
  std::vector<Rule> rules_;
};

}  // namespace

void add_run_options(CLI::App& app, RunOptions& options) {
  app.add_option("-w,--workspace", options.workspaces,
                 "Directory to work in, at its own path: DIR[:overlay|ro|rw|discard] (default "
                 "overlay; repeatable, the box starts in the first)")
      ->allow_extra_args(false);
  app.add_option("--bind", options.binds,
                 "Show a directory or file at another path: PATH:INSIDE[:ro|rw|overlay|discard] "
                 "(default ro; repeatable)")
      ->allow_extra_args(false);
  app.add_option("--read", options.read, "Let the box read this file or directory (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--write", options.write, "Let the box change it too (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--policy", options.policy, "NAME of a template, or FILE[#SANDBOX]");
  app.add_option("--if-policy", options.if_policy, "Refuse unless the policy has this digest");
  app.add_option("--allow", options.allow,
                 "Hand in a capability, KIND=VALUE: read=/srv, env=HOME, syscalls=GROUP, "
                 "memory=1GiB (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--deny", options.deny, "Take one out of what is handed in (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--env", options.env, "Pass NAME (the value here) or NAME=VALUE (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--backend", options.backend, "process, cell or microvm");
  app.add_option("--memory", options.memory, "Memory of all processes together, such as 256MiB");
  app.add_option("--pids", options.pids, "Processes and threads at the same time");
  app.add_option("--cpu-time", options.cpu_time, "CPU time of all processes together, such as 5s");
  app.add_option("--cpus", options.cpus, "CPU cores to use at the most, such as 1.5");
  app.add_option("--wall", options.wall, "Time until the box is ended, such as 30s");
  app.add_option("--output-limit", options.output_limit, "Bytes on stdout and stderr together");
  app.add_option("--open-files", options.open_files, "Open files of one process");
  app.add_option("--disk", options.disk,
                 "Bytes in the private /tmp, /run and /home and in layers together");
  app.add_option("--inodes", options.inodes, "Files in the same");
  app.add_option("--hostname", options.hostname, "Host name inside");
  app.add_option("--cwd", options.cwd, "Directory to start in, as the box sees it");
  app.add_option("--uid", options.uid, "User id as the box sees it");
  app.add_option("--gid", options.gid, "Group id as the box sees it");
  app.add_option("--waive", options.waive, "Give up a protection by name (repeatable)")
      ->allow_extra_args(false);
  app.add_option("-p,--publish", options.publish,
                 "Open a port of the box outside: [ADDRESS:]HOST:BOX, on 127.0.0.1 (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--resolver", options.resolver,
                 "Name servers to ask for the box, ADDRESS[:PORT][,...] (default: the host's)");
  app.add_flag("--no-loopback", options.no_loopback, "Not even loopback inside the box");
  for (CLI::Option* option : app.get_options()) option->check(not_empty);
}

Result<std::vector<std::string>> handed_in_places(const RunOptions& options) {
  session::BoxRequest request;
  TRY_VOID(add_places(options, request));
  std::vector<std::string> paths;
  for (session::WorkspaceRequest& one : request.workspaces) paths.push_back(std::move(one.path));
  for (session::BindRequest& one : request.binds) paths.push_back(std::move(one.source));
  return paths;
}

Result<session::BoxRequest> to_request(const RunOptions& options) {
  session::BoxRequest request;
  request.command = options.command;
  TRY_VOID(parse_into(request.backend, options.backend, "--backend", parse_backend));
  Handed handed(options);
  TRY(const std::vector<Rule> rules, handed.rules());
  TRY(request.handed, authority::AuthoritySet::from_rules(rules));
  TRY_VOID(parse_into(request.cpus_milli, options.cpus, "--cpus", parse_thousandths));
  TRY_VOID(parse_into(request.uid, options.uid, "--uid", parse_id));
  TRY_VOID(parse_into(request.gid, options.gid, "--gid", parse_id));
  request.hostname = options.hostname;
  if (!options.cwd.empty()) request.cwd = options.cwd;
  if (options.no_loopback) request.loopback = plan::Loopback::Down;
  for (const std::string& text : options.publish) {
    auto published = plan::parse_publication(text);
    if (!published) return fail(Code::Invalid, "--{}", published.error().message);
    request.published.push_back(*std::move(published));
  }
  request.resolver = options.resolver;
  request.waived.insert(options.waive.begin(), options.waive.end());
  TRY_VOID(add_places(options, request));
  if (options.policy.empty() && !options.if_policy.empty()) {
    return fail(Code::Invalid, "--if-policy needs --policy");
  }
  request.policy.name = options.policy;
  request.policy.if_digest = options.if_policy;
  if (const char* lang = std::getenv("LANG"); lang != nullptr && *lang != '\0') request.lang = lang;
  if (const char* term = std::getenv("TERM"); term != nullptr && *term != '\0') request.term = term;
  return request;
}

}  // namespace glovebox::app
