#include "session/python_plan.h"

#include "authority/terms.h"
#include "base/file.h"
#include "base/sha256.h"
#include "guest/python/extension.h"
#include "host/path_facts.h"
#include "plan/make_plan.h"
#include "workspace/records.h"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
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

constexpr std::array<std::string_view, 3> kProgramDirectories = {"/usr/local/bin", "/usr/bin",
                                                                 "/bin"};

// Kept by the Python host alone; the kernel cannot tell them from what any program does.
bool is_for_host(const Capability& capability) {
  if (const auto budget = authority::find_budget(capability)) {
    return budget->kind == BudgetKind::Cpu || budget->kind == BudgetKind::Wall;
  }
  return std::holds_alternative<authority::Import>(capability) ||
         std::holds_alternative<authority::Subprocess>(capability) ||
         std::holds_alternative<authority::Clock>(capability) ||
         std::holds_alternative<authority::Random>(capability) ||
         std::holds_alternative<authority::Channel>(capability);
}

Result<std::string> find_interpreter(const std::string& name) {
  if (name.starts_with('/')) return name;
  if (name.empty() || name.find('/') != std::string::npos || name.starts_with('-')) {
    return fail(Code::Invalid, "python.interpreter is an absolute path or a bare name");
  }
  for (const std::string_view directory : kProgramDirectories) {
    std::string path = fmt::format("{}/{}", directory, name);
    if (host::look_up(path)) return path;
  }
  return fail(Code::NotFound, "there is no interpreter '{}'", name);
}

// The value of `home` in a pyvenv.cfg, which is where the environment's interpreter comes from.
std::string home_of(const std::string& config) {
  for (std::size_t at = 0; at < config.size();) {
    const std::size_t end = std::min(config.find('\n', at), config.size());
    const std::string line = config.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || !line.starts_with("home")) continue;
    const std::size_t start = line.find_first_not_of(" \t", equals + 1);
    if (start != std::string::npos) return line.substr(start);
  }
  return "";
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

Result<void> show(const std::string& path, plan::SandboxSpec& spec) {
  if (host::is_within(path, "/usr")) return {};
  TRY(host::PathFacts facts, host::look_up(path));
  if (facts.path == "/") return fail(Code::Invalid, "an interpreter of the root directory itself");
  plan::Workspace place;
  place.mode = plan::Workspace::Mode::Read;
  if (facts.path != path) place.inside = path;
  place.at = std::move(facts);
  spec.workspaces.push_back(std::move(place));
  return {};
}

// The interpreter's own files, where they are not part of the system that every box sees.
Result<void> show_interpreter(PythonPlan& plan, plan::SandboxSpec& spec) {
  TRY(const host::PathFacts program, host::look_up(plan.interpreter));
  if (program.kind != host::PathKind::File) {
    return fail(Code::Invalid, "{}: not a program", plan.interpreter);
  }
  const std::string prefix = parent_of(parent_of(plan.interpreter));
  const auto config = read_file(prefix + "/pyvenv.cfg");
  if (config) {
    plan.environment = prefix;
    TRY_VOID(show(prefix, spec));
  }
  const std::string home = config ? home_of(*config) : "";
  TRY_VOID(show(parent_of(parent_of(program.path)), spec));
  if (home.empty() || parent_of(home) == parent_of(parent_of(program.path))) return {};
  return show(parent_of(home), spec);
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
    if (place.mode == plan::Workspace::Mode::Read) continue;
    paths.push_back(words({"allow", "write", place.path_inside()}));
  }
}

bool allows_any(const authority::AuthoritySet& set, auto&& is_kind) {
  return std::ranges::any_of(set.rules(), [&](const Rule& rule) {
    return rule.effect == Effect::Allow && is_kind(rule.capability);
  });
}

bool is_network(const Capability& capability) {
  return std::holds_alternative<authority::ConnectTCP>(capability) ||
         std::holds_alternative<authority::ListenTCP>(capability) ||
         std::holds_alternative<authority::ResolveName>(capability);
}

}  // namespace

Result<PythonPlan> plan_python(const SessionRequest& request, const std::string& extension,
                               plan::SandboxSpec& spec) {
  const PythonRequest& python = *request.python;
  if (spec.backend == plan::Backend::Microvm) {
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
  std::vector<Rule> rules = spec.authority.rules();
  std::erase_if(rules, [](const Rule& rule) { return is_for_host(rule.capability); });
  TRY(spec.authority, authority::AuthoritySet::from_rules(rules));
  spec.backend = plan::Backend::Process;
  if (spec.workspaces.empty()) spec.cwd = std::string(plan::kHomeInside);
  TRY_VOID(show_interpreter(plan, spec));
  return plan;
}

std::vector<std::string> python_terms(const PythonPlan& plan) {
  std::vector<std::string> terms;
  for (const Rule& rule : plan.authority.rules()) {
    if (rule.effect != Effect::Silent && is_for_host(rule.capability)) {
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
  std::vector<std::string> command;
  if (plan.backend == plan::Backend::Cell) {
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
               "-c",
               boot,
               "cells",
               plan.extension,
               plan.environment};
  } else {
    command = {plan.interpreter, "-I", "-S", "-c", boot, "alone", plan.extension, plan.environment};
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
