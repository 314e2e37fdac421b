#include "app/run_options.h"

#include "base/quantity.h"
#include "host/path_facts.h"

#include <cstdlib>

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
  if (text == "process") return plan::Backend::Process;
  if (text == "cell") return plan::Backend::Cell;
  if (text == "microvm") return plan::Backend::Microvm;
  return fail(Code::Invalid, "--backend '{}': there are process, cell and microvm", text);
}

Result<plan::Grant> grant(const std::string& path, plan::Access access, const char* option) {
  auto facts = host::look_up_from_here(path);
  if (!facts) {
    Error error = std::move(facts).error();
    error.message = fmt::format("{} {}", option, error.message);
    return tl::unexpected(std::move(error));
  }
  return plan::Grant{*std::move(facts), access};
}

// DIR, DIR:ro or DIR:rw.
Result<plan::Grant> workspace(std::string text) {
  plan::Access access = plan::Access::Write;
  if (text.ends_with(":ro")) access = plan::Access::Read;
  if (text.ends_with(":ro") || text.ends_with(":rw")) text.resize(text.size() - 3);
  return grant(text, access, "--workspace");
}

// NAME=VALUE, or NAME for the caller's own value.
Result<plan::EnvEntry> env_entry(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals != std::string::npos) {
    return plan::EnvEntry{text.substr(0, equals), text.substr(equals + 1)};
  }
  const char* value = std::getenv(text.c_str());
  if (value == nullptr) {
    return fail(Code::NotFound, "--env {}: not set here (give it a value: --env {}=VALUE)", text,
                text);
  }
  return plan::EnvEntry{text, value};
}

Result<void> parse_limits(const RunOptions& options, plan::Limits& limits) {
  TRY_VOID(parse_into(limits.memory_bytes, options.memory, "--memory", parse_bytes));
  TRY_VOID(parse_into(limits.pids, options.pids, "--pids", parse_count));
  TRY_VOID(parse_into(limits.cpus_milli, options.cpus, "--cpus", parse_thousandths));
  TRY_VOID(parse_into(limits.cpu_time, options.cpu_time, "--cpu-time", parse_duration));
  TRY_VOID(parse_into(limits.wall, options.wall, "--wall", parse_duration));
  TRY_VOID(parse_into(limits.output_bytes, options.output_limit, "--output-limit", parse_bytes));
  TRY_VOID(parse_into(limits.open_files, options.open_files, "--open-files", parse_count));
  TRY_VOID(parse_into(limits.disk_bytes, options.disk, "--disk", parse_bytes));
  return {};
}

}  // namespace

void add_run_options(CLI::App& app, RunOptions& options) {
  app.add_option("-w,--workspace", options.workspace,
                 "Directory to work in, at its own path: DIR[:ro|rw] (default rw)");
  app.add_option("--read", options.read, "Let the box read this file or directory (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--write", options.write, "Let the box change it too (repeatable)")
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
  app.add_option("--disk", options.disk, "Size of the private /tmp, /run and /home together");
  app.add_option("--hostname", options.hostname, "Host name inside");
  app.add_option("--cwd", options.cwd, "Directory to start in, as the box sees it");
  app.add_option("--uid", options.uid, "User id as the box sees it");
  app.add_option("--gid", options.gid, "Group id as the box sees it");
  app.add_option("--waive", options.waive, "Give up a protection by name (repeatable)")
      ->allow_extra_args(false);
  app.add_flag("--no-loopback", options.no_loopback, "Not even loopback inside the box");
  for (CLI::Option* option : app.get_options()) option->check(not_empty);
}

Result<plan::SandboxSpec> to_spec(const RunOptions& options) {
  plan::SandboxSpec spec;
  spec.command = options.command;
  TRY(spec.backend, parse_backend(options.backend));
  if (!options.workspace.empty()) {
    TRY(spec.workspace, workspace(options.workspace));
  }
  for (const std::string& path : options.read) {
    TRY(plan::Grant granted, grant(path, plan::Access::Read, "--read"));
    spec.grants.push_back(std::move(granted));
  }
  for (const std::string& path : options.write) {
    TRY(plan::Grant granted, grant(path, plan::Access::Write, "--write"));
    spec.grants.push_back(std::move(granted));
  }
  for (const std::string& text : options.env) {
    TRY(plan::EnvEntry entry, env_entry(text));
    spec.env.push_back(std::move(entry));
  }
  TRY_VOID(parse_limits(options, spec.limits));
  TRY_VOID(parse_into(spec.uid, options.uid, "--uid", parse_id));
  TRY_VOID(parse_into(spec.gid, options.gid, "--gid", parse_id));
  spec.hostname = options.hostname;
  if (!options.cwd.empty()) spec.cwd = options.cwd;
  spec.loopback = options.no_loopback ? plan::Loopback::Down : plan::Loopback::Up;
  spec.waived.insert(options.waive.begin(), options.waive.end());
  if (const char* lang = std::getenv("LANG"); lang != nullptr && *lang != '\0') spec.lang = lang;
  if (const char* term = std::getenv("TERM"); term != nullptr && *term != '\0') spec.term = term;
  return spec;
}

}  // namespace glovebox::app
