#include "cli/run_options.h"

#include "authority/terms.h"
#include "base/quantity.h"
#include "cli/chosen_policy.h"
#include "cli/layers.h"
#include "cli/own_places.h"
#include "host/path_facts.h"
#include "host/resolve_authority.h"
#include "host/secrets.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
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

Result<plan::Backend> parse_backend(const std::string& text) {
  if (text.empty() || text == "process") return plan::Backend::Process;
  if (text == "cell") return plan::Backend::Cell;
  if (text == "microvm") return plan::Backend::Microvm;
  return fail(Code::Invalid, "--backend '{}': there are process, cell and microvm", text);
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

using Mode = plan::Workspace::Mode;

constexpr std::array<std::pair<std::string_view, Mode>, 4> kModes{{{":overlay", Mode::Overlay},
                                                                   {":ro", Mode::Read},
                                                                   {":rw", Mode::Write},
                                                                   {":discard", Mode::Discard}}};

// Takes a mode off the end of DIR:MODE.
std::optional<Mode> take_mode(std::string& text) {
  for (const auto& [suffix, mode] : kModes) {
    if (!text.ends_with(suffix)) continue;
    text.resize(text.size() - suffix.size());
    return mode;
  }
  return std::nullopt;
}

// DIR[:MODE]. Without a mode: the policy's, else overlay.
Result<plan::Workspace> parse_workspace(std::string text) {
  plan::Workspace workspace;
  workspace.mode = take_mode(text).value_or(Mode::Overlay);
  TRY(workspace.at, look_up_typed(text, "--workspace"));
  return workspace;
}

// PATH:INSIDE[:MODE]. Without a mode it can only be read.
Result<plan::Workspace> parse_bind(std::string text) {
  plan::Workspace workspace;
  workspace.mode = take_mode(text).value_or(Mode::Read);
  const std::size_t colon = text.rfind(":/");
  if (colon == std::string::npos || colon == 0) {
    return fail(Code::Invalid, "--bind '{}' is not PATH:INSIDE, with an absolute path inside",
                text);
  }
  TRY(workspace.at, look_up_typed(text.substr(0, colon), "--bind"));
  workspace.inside = text.substr(colon + 1);
  if (workspace.inside == workspace.at.path) workspace.inside.clear();
  return workspace;
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

Result<std::uint16_t> parse_port(std::string_view text, const std::string& whole) {
  const auto range = authority::PortRange::parse(text);
  if (!range || !range->is_single()) {
    return fail(Code::Invalid, "--publish {}: '{}' is no port", whole, text);
  }
  return range->first();
}

// [ADDRESS:]HOST:BOX, or one port for both.
Result<plan::Publication> parse_publication(const std::string& whole) {
  std::string_view ports = whole;
  std::string_view address = "127.0.0.1";
  const std::size_t last = whole.rfind(':');
  const std::size_t before =
      last == std::string::npos || last == 0 ? last : whole.rfind(':', last - 1);
  if (last != std::string::npos && before != std::string::npos) {
    address = std::string_view(whole).substr(0, before);
    ports.remove_prefix(before + 1);
    if (address.starts_with('[') && address.ends_with(']')) {
      address = address.substr(1, address.size() - 2);
    }
  }
  auto network = authority::IpNetwork::parse(address);
  if (!network || !network->is_single_address()) {
    return fail(Code::Invalid, "--publish {}: '{}' is no address of this host", whole, address);
  }
  plan::Publication published{*std::move(network)};
  const std::size_t colon = ports.find(':');
  TRY(published.outside, parse_port(ports.substr(0, colon), whole));
  TRY(published.inside,
      parse_port(colon == std::string_view::npos ? ports : ports.substr(colon + 1), whole));
  return published;
}

// The caller's values of the variables that are passed on.
std::vector<plan::EnvEntry> caller_environment(const authority::AuthoritySet& set) {
  std::vector<plan::EnvEntry> entries;
  for (const Rule& rule : set.rules()) {
    const auto* env = std::get_if<authority::Env>(&rule.capability);
    if (env == nullptr || env->value || rule.effect != Effect::Allow) continue;
    const char* value = std::getenv(env->name.text().c_str());
    if (value != nullptr) entries.push_back({env->name.text(), value});
  }
  return entries;
}

// Only a request that names secrets needs to know where they are.
Result<void> add_secrets(plan::SandboxSpec& spec) {
  const std::vector<Rule> rules = spec.authority.rules();
  const bool none = std::ranges::none_of(rules, [](const Rule& rule) {
    return std::holds_alternative<authority::Secret>(rule.capability) &&
           rule.effect == Effect::Allow;
  });
  if (none) return {};
  TRY(const std::string directory, secrets_directory());
  TRY(spec.secrets, host::find_secrets(spec.authority, directory));
  return {};
}

}  // namespace

bool names_a_mode(std::string_view workspace) {
  return std::ranges::any_of(kModes,
                             [&](const auto& mode) { return workspace.ends_with(mode.first); });
}

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

Result<std::vector<plan::Workspace>> parse_workspaces(const RunOptions& options) {
  std::vector<plan::Workspace> workspaces;
  for (const std::string& text : options.workspaces) {
    TRY(plan::Workspace workspace, parse_workspace(text));
    workspaces.push_back(std::move(workspace));
  }
  for (const std::string& text : options.binds) {
    TRY(plan::Workspace workspace, parse_bind(text));
    workspaces.push_back(std::move(workspace));
  }
  return workspaces;
}

Result<authority::AuthoritySet> handed_authority(const RunOptions& options) {
  Handed handed(options);
  TRY(const std::vector<Rule> rules, handed.rules());
  return authority::AuthoritySet::from_rules(rules);
}

Result<plan::SandboxSpec> to_spec(const RunOptions& options) {
  plan::SandboxSpec spec;
  spec.command = options.command;
  TRY(spec.backend, parse_backend(options.backend));
  TRY(const authority::AuthoritySet set, handed_authority(options));
  TRY(host::ResolvedAuthority resolved, host::resolve_paths(set));
  spec.authority = std::move(resolved.set);
  spec.paths = std::move(resolved.paths);
  TRY_VOID(parse_into(spec.cpus_milli, options.cpus, "--cpus", parse_thousandths));
  TRY_VOID(parse_into(spec.uid, options.uid, "--uid", parse_id));
  TRY_VOID(parse_into(spec.gid, options.gid, "--gid", parse_id));
  spec.hostname = options.hostname;
  if (!options.cwd.empty()) spec.cwd = options.cwd;
  spec.loopback = options.no_loopback ? plan::Loopback::Down : plan::Loopback::Up;
  for (const std::string& publication : options.publish) {
    TRY(const plan::Publication published, parse_publication(publication));
    spec.published.push_back(published);
  }
  spec.waived.insert(options.waive.begin(), options.waive.end());
  TRY(spec.workspaces, parse_workspaces(options));
  TRY_VOID(apply_policy(options, spec));
  spec.caller_env = caller_environment(spec.authority);
  TRY_VOID(hide_own_places(spec));
  TRY_VOID(add_secrets(spec));
  if (const char* lang = std::getenv("LANG"); lang != nullptr && *lang != '\0') spec.lang = lang;
  if (const char* term = std::getenv("TERM"); term != nullptr && *term != '\0') spec.term = term;
  return spec;
}

}  // namespace glovebox::app
