#include "session/python/python_plan.h"

#include "authority/terms.h"
#include "base/file.h"
#include "base/sha256.h"
#include "host/path_facts.h"
#include "plan/make_plan.h"
#include "python/extension.h"
#include "session/python/python_facts.h"
#include "workspace/tree/private_files.h"

#include <boost/json.hpp>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>

namespace glovebox::session {
namespace {

namespace json = boost::json;
using authority::BudgetKind;
using authority::Capability;
using authority::Effect;
using authority::Rule;

// Kept by the Python host or out here, and no part of the box: the kernel cannot tell them from
// what any program does, or the box is not this cell's alone.
bool is_for_host(const Capability& capability, Backend backend) {
  if (const auto budget = authority::find_budget(capability)) {
    return budget->kind == BudgetKind::Cpu || budget->kind == BudgetKind::Wall ||
           (budget->kind == BudgetKind::Output && backend == Backend::Cell);
  }
  return std::holds_alternative<authority::Import>(capability) ||
         std::holds_alternative<authority::Subprocess>(capability) ||
         std::holds_alternative<authority::Clock>(capability) ||
         std::holds_alternative<authority::Random>(capability) ||
         std::holds_alternative<authority::Secret>(capability) ||
         std::holds_alternative<authority::Channel>(capability);
}

constexpr std::size_t kLargestEnvironmentFile = 64 << 10;

// pyvenv.cfg of an environment that a box may have written to: never a link or a pipe. Empty: there
// is none.
Result<std::string> read_environment_file(const std::string& path) {
  auto fd = open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!fd && fd.error().os_errno == ENOENT) return "";
  if (!fd) return tl::unexpected(std::move(fd).error());
  struct stat facts{};
  if (::fstat(fd->get(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return fail(Code::Denied, "{}: not a file", path);
  }
  return read_fd(*fd, kLargestEnvironmentFile);
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t start = text.find_first_not_of(kBlank);
  if (start == std::string_view::npos) return "";
  return std::string(text.substr(start, text.find_last_not_of(kBlank) - start + 1));
}

// The value of `home` in a pyvenv.cfg, which is where the environment's interpreter comes from.
// Keys are compared as Python does.
std::string home_of(const std::string& config) {
  for (std::size_t at = 0; at < config.size();) {
    const std::size_t end = std::min(config.find('\n', at), config.size());
    const std::string_view line = std::string_view(config).substr(at, end - at);
    at = end + 1;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    std::string key = trimmed(line.substr(0, equals));
    std::ranges::transform(key, key.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (key == "home") return trimmed(line.substr(equals + 1));
  }
  return "";
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

Result<void> show(const std::string& path, plan::SandboxSpec& spec) {
  if (host::is_within(path, "/usr")) return {};
  TRY(host::PathFacts facts, host::look_up(path));
  if (facts.path == "/") return fail(Code::Invalid, "an interpreter of the root directory itself");
  plan::Workspace place;
  place.mode = WorkspaceMode::Read;
  if (facts.path != path) place.inside = path;
  place.at = std::move(facts);
  spec.workspaces.push_back(std::move(place));
  return {};
}

// An environment says itself where its interpreter is from, and a box may have written that: it is
// believed if the interpreter is really there, or in the system that every box sees.
Result<void> check_home(const std::string& environment, const std::string& home,
                        const std::string& program) {
  if (home.empty()) return {};
  const auto found = host::look_up(home);
  if (found && (host::is_within(found->path, "/usr") || found->path == parent_of(program)))
    return {};
  return fail(Code::Denied,
              "{}/pyvenv.cfg: its 'home' is not where its interpreter is (make it anew with "
              "'python3 -m venv --symlinks')",
              environment);
}

// The interpreter's own files, where they are not part of the system that every box sees.
Result<void> show_interpreter(PythonPlan& plan, plan::SandboxSpec& spec) {
  TRY(const host::PathFacts program, host::look_up(plan.interpreter));
  if (program.kind != host::PathKind::File) {
    return fail(Code::Invalid, "{}: not a program", plan.interpreter);
  }
  if (!parent_of(program.path).ends_with("/bin") ||
      !parent_of(plan.interpreter).ends_with("/bin")) {
    return fail(Code::Invalid, "{}: an interpreter is in a directory 'bin'", plan.interpreter);
  }
  const std::string prefix = parent_of(parent_of(plan.interpreter));
  TRY(const std::string config, read_environment_file(prefix + "/pyvenv.cfg"));
  if (!config.empty()) {
    TRY_VOID(check_home(prefix, home_of(config), program.path));
    plan.environment = prefix;
    TRY_VOID(show(prefix, spec));
  }
  return show(parent_of(parent_of(program.path)), spec);
}

json::array words(std::initializer_list<std::string_view> list) {
  json::array array;
  for (const std::string_view word : list) array.emplace_back(json::string_view(word));
  return array;
}

void add_rule(const Rule& rule, json::array& paths, json::array& imports) {
  const std::string_view effect = authority::to_text(rule.effect);
  const auto path = [&](std::string_view use, const authority::AbsolutePath& at) {
    paths.push_back(words({effect, use, at.text()}));
  };
  const bool is_deny = rule.effect == Effect::Deny;
  if (const auto* read = std::get_if<authority::ReadPath>(&rule.capability)) {
    path("read", read->path);
    if (is_deny) path("write", read->path);
  } else if (const auto* write = std::get_if<authority::WritePath>(&rule.capability)) {
    path("write", write->path);
    if (rule.effect == Effect::Allow) path("read", write->path);
  } else if (const auto* exec = std::get_if<authority::ExecPath>(&rule.capability)) {
    path("exec", exec->path);
  } else if (const auto* module = std::get_if<authority::Import>(&rule.capability)) {
    imports.push_back(words({effect, module->module.to_text()}));
  }
}

void add_workspaces(const PythonPlan& plan, json::array& paths) {
  for (const plan::Workspace& place : plan.workspaces) {
    paths.push_back(words({"allow", "read", place.path_inside()}));
    if (place.mode == WorkspaceMode::Read) continue;
    paths.push_back(words({"allow", "write", place.path_inside()}));
  }
}

bool allows_any(const authority::AuthoritySet& set, auto&& is_kind) {
  return std::ranges::any_of(set.rules(), [&](const Rule& rule) {
    return rule.effect == Effect::Allow && is_kind(rule.capability);
  });
}

// The box gets none of them.
Result<void> take_secrets(PythonPlan& plan, plan::SandboxSpec& spec) {
  for (const Rule& rule : spec.authority.rules()) {
    const auto* secret = std::get_if<authority::Secret>(&rule.capability);
    if (secret == nullptr || rule.effect != Effect::Allow) continue;
    if (!spec.secrets.contains(secret->name.text())) {
      return fail(Code::NotFound, "secret={}: there is no such secret here", secret->name.text());
    }
  }
  plan.secrets = std::exchange(spec.secrets, {});
  return {};
}

bool is_network(const Capability& capability) {
  return std::holds_alternative<authority::ConnectTCP>(capability) ||
         std::holds_alternative<authority::ListenTCP>(capability) ||
         std::holds_alternative<authority::ResolveName>(capability);
}

}  // namespace

Result<PythonPlan> plan_python(const BoxRequest& request, const std::string& extension,
                               plan::SandboxSpec& spec) {
  const PythonRequest& python = *request.python;
  if (spec.backend == Backend::Microvm) {
    return fail(Code::Unsupported, "backend 'microvm' has no Python host; use process or cell");
  }
  if (python.preload.size() > kMaxPreloads) {
    return fail(Code::Invalid, "at most {} modules are preloaded", kMaxPreloads);
  }
  PythonPlan plan;
  plan.extension = extension;
  plan.backend = spec.backend;
  plan.preload = python.preload;
  plan.name = request.name;
  for (const std::string& module : python.preload) TRY_VOID(authority::Import::parse(module));
  TRY(plan.interpreter, find_interpreter(python.interpreter));
  plan.authority = spec.authority;
  plan.workspaces = spec.workspaces;
  if (const auto wall = spec.authority.budget(BudgetKind::Wall)) {
    plan.wall = std::chrono::milliseconds(static_cast<std::int64_t>(*wall));
  }
  if (plan.backend == Backend::Cell) {
    plan.output_bytes = spec.authority.budget(BudgetKind::Output);
  }
  TRY_VOID(take_secrets(plan, spec));
  std::vector<Rule> rules = spec.authority.rules();
  std::erase_if(rules,
                [&](const Rule& rule) { return is_for_host(rule.capability, plan.backend); });
  TRY(spec.authority, authority::AuthoritySet::from_rules(rules));
  spec.backend = Backend::Process;
  TRY_VOID(show_interpreter(plan, spec));
  return plan;
}

std::vector<std::string> python_terms(const PythonPlan& plan) {
  std::vector<std::string> terms;
  for (const Rule& rule : plan.authority.rules()) {
    if (rule.effect != Effect::Silent && is_for_host(rule.capability, plan.backend)) {
      terms.push_back(authority::to_text(rule));
    }
  }
  return terms;
}

std::vector<std::string> python_command(const PythonPlan& plan) {
  // The modules come as arguments, never as text of the program.
  const std::string boot =
      "import sys; sys.path.insert(0, sys.argv[2]); import glovebox_host; del sys.path[0]; "
      "glovebox_host.main(sys.argv[1], sys.argv[2], sys.argv[3], tuple(sys.argv[4:]))";
  // Paths are UTF-8 in any locale: so the guard reads them.
  std::vector<std::string> command;
  if (plan.backend == Backend::Cell) {
    // The C library's malloc tells the size of a block, which counting by cell needs. Options that
    // shut out variables would shut out this one: the others are taken away by name.
    command = {"/usr/bin/env",
               "-u",
               "PYTHONPATH",
               "-u",
               "PYTHONHOME",
               "-u",
               "PYTHONSTARTUP",
               "-u",
               "PYTHONINSPECT",
               "PYTHONMALLOC=malloc",
               "MALLOC_ARENA_MAX=2",
               plan.interpreter,
               "-s",
               "-P",
               "-S",
               "-X",
               "utf8",
               "-c",
               boot,
               "cells",
               plan.extension,
               plan.environment};
  } else {
    command = {plan.interpreter, "-I", "-S", "-X", "utf8", "-c", boot, "alone", plan.extension,
               plan.environment};
  }
  command.insert(command.end(), plan.preload.begin(), plan.preload.end());
  return command;
}

std::string python_begin(const PythonPlan& plan) {
  json::array paths;
  json::array imports;
  json::array capabilities;
  for (const Rule& rule : plan.authority.rules()) {
    add_rule(rule, paths, imports);
    if (rule.effect == Effect::Allow && !authority::find_budget(rule.capability)) {
      capabilities.push_back(words({authority::to_text(rule.capability)}));
    }
  }
  add_workspaces(plan, paths);
  json::object begin;
  begin["name"] = plan.name;
  begin["paths"] = std::move(paths);
  begin["imports"] = std::move(imports);
  begin["capabilities"] = std::move(capabilities);
  begin["last_request"] = plan.last_request;
  begin["network"] = allows_any(plan.authority, is_network);
  begin["unix"] = allows_any(plan.authority, [](const Capability& capability) {
    return std::holds_alternative<authority::ConnectUnix>(capability);
  });
  if (const auto cpu = plan.authority.budget(BudgetKind::Cpu)) begin["cpu_ms"] = *cpu;
  if (const auto memory = plan.authority.budget(BudgetKind::Memory))
    begin["memory_bytes"] = *memory;
  return json::serialize(begin);
}

Result<std::string> write_python_extension(const std::string& directory) {
  const std::string_view extension = guest::python_extension();
  const std::string own = fmt::format("{}/{}", directory, sha256_hex(extension).substr(0, 16));
  TRY_VOID(workspace::open_private_directory(directory));
  const std::string file = own + "/glovebox_host.abi3.so";
  struct stat found{};
  if (::stat(file.c_str(), &found) == 0 &&
      static_cast<std::size_t>(found.st_size) == extension.size()) {
    return own;
  }
  if (::mkdir(own.c_str(), 0755) != 0 && errno != EEXIST) return fail_os(errno, "make {}", own);
  const std::string draft = own + "/.new";
  TRY(const UniqueFd fd, open_file(draft, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644));
  TRY_VOID(write_all(fd, extension));
  // Whatever the service's umask is: users of boxes read them.
  if (::fchmod(fd.get(), 0444) != 0 || ::chmod(own.c_str(), 0755) != 0) {
    return fail_os(errno, "set the mode of {}", own);
  }
  if (std::rename(draft.c_str(), file.c_str()) != 0) return fail_os(errno, "rename to {}", file);
  return own;
}

}  // namespace glovebox::session
