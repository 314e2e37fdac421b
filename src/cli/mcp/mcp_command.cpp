#include "cli/mcp/mcp_command.h"

#include "authority/names.h"
#include "authority/terms.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/layers.h"
#include "cli/mcp/mcp_install.h"
#include "cli/session/session_state.h"
#include "host/path_facts.h"
#include "mcp/http_front.h"
#include "mcp/mcp_server.h"
#include "mcp/repl/name_keeper.h"
#include "policy/load.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <linux/limits.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

using mcp::ModeWord;

// As they were typed, across the options: each of the four may refine what stands before it.
std::vector<ModeWord> take_mode_words(const McpOptions& options) {
  struct Source {
    ModeWord::Kind kind;
    const std::vector<std::string>* values;
    std::size_t taken = 0;
  };
  std::map<std::string, Source> sources{
      {"--sandbox", {ModeWord::Kind::Sandbox, &options.sandbox}},
      {"--add-writable-root", {ModeWord::Kind::AddWritableRoot, &options.writable_roots}},
      {"--add-allowed-domain", {ModeWord::Kind::AddAllowedDomain, &options.domains}},
      {"--config", {ModeWord::Kind::Config, &options.config}}};
  std::vector<ModeWord> words;
  for (const CLI::Option* option : options.parsed->parse_order()) {
    const auto found = sources.find(option->get_name());
    if (found == sources.end()) continue;
    Source& source = found->second;
    if (source.taken < source.values->size()) {
      words.push_back({source.kind, (*source.values)[source.taken++]});
    }
  }
  return words;
}

Result<std::string> launcher_path() {
  if (const char* named = std::getenv("GLOVEBOX_LAUNCHER"); named != nullptr && *named == '/') {
    return std::string(named);
  }
  std::array<char, PATH_MAX> self{};
  const ssize_t size = ::readlink("/proc/self/exe", self.data(), self.size());
  if (size <= 0) return fail_os(errno, "find the program itself");
  const std::string path(self.data(), static_cast<std::size_t>(size));
  return path.substr(0, path.rfind('/')) + "/glovebox-launcher";
}

Result<mcp::ExtraTerms> extra_terms(const McpOptions& options) {
  mcp::ExtraTerms extra;
  const auto add = [&](const std::vector<std::string>& terms, authority::Effect effect) {
    for (const std::string& term : terms) {
      auto capability = authority::parse_term(term);
      if (!capability) return Result<void>(tl::unexpected(std::move(capability).error()));
      extra.rules.push_back({effect, *std::move(capability)});
    }
    return Result<void>();
  };
  TRY_VOID(add(options.allow, authority::Effect::Allow));
  TRY_VOID(add(options.deny, authority::Effect::Deny));
  if (options.policy.empty()) return extra;
  const policy::Reference reference = policy::parse_reference(options.policy);
  if (reference.kind == policy::Reference::Kind::Template) {
    extra.policy.name = options.policy;
    return extra;
  }
  TRY(extra.policy.document, read_file(reference.source));
  extra.policy.sandbox = reference.sandbox;
  return extra;
}

template <class Number>
void take_number(const char* name, Number& number) {
  const char* text = std::getenv(name);
  if (text == nullptr) return;
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (end != text && *end == '\0' && value > 0) number = static_cast<Number>(value);
}

Result<std::string> canonical(const std::string& path) {
  std::error_code problem;
  std::string whole = std::filesystem::canonical(path, problem).string();
  if (problem) return fail_os(problem.value(), "find {}", path);
  return whole;
}

Result<void> add_checkpoints(const McpOptions& options, mcp::BoxSettings& box) {
  if (options.checkpoint_directory.empty()) {
    if (options.checkpoint_key_file.empty()) return {};
    return fail(Code::Invalid, "--key-file needs --checkpoint-dir");
  }
  if (!options.layered) {
    return fail(Code::Invalid, "--checkpoint-dir needs --layered: without it there is no layer");
  }
  SessionOptions keys;
  keys.key_file = options.checkpoint_key_file;
  TRY(const checkpoint::Key key, checkpoint_key(keys));
  TRY(box.checkpoints, mcp::open_checkpoint_place(options.checkpoint_directory, key));
  box.checkpoint_key_file = key_file_of(keys);
  if (!box.checkpoint_key_file.empty()) {
    TRY(box.checkpoint_key_file, canonical(box.checkpoint_key_file));
  }
  return {};
}

// With a mode of the command line it is known before the first call that every call would be
// refused.
Result<void> check_own_places(const mcp::ServerSettings& settings) {
  if (settings.mode.mode == mcp::Mode::Inherit) return {};
  const mcp::BoxSettings& box = settings.box;
  for (const mcp::PathEntry& entry : mcp::make_profile(settings.mode, settings.cwd).entries) {
    if (entry.access != mcp::Access::Write) continue;
    for (const std::string& path : {box.checkpoints ? box.checkpoints->directory : "",
                                    box.checkpoint_key_file, box.token_file}) {
      if (path.empty() || !host::is_within(path, entry.path)) continue;
      return fail(Code::Invalid, "{} must not lie in {}, which the box may write", path,
                  entry.path);
    }
  }
  return {};
}

Result<mcp::External> parse_external(const std::string& word) {
  if (word == "read-only") return mcp::External::ReadOnly;
  if (word == "full-access") return mcp::External::FullAccess;
  return fail(Code::Invalid, "--external {}: there are read-only and full-access", word);
}

Result<mcp::ServerSettings> make_settings(const McpOptions& options) {
  mcp::ServerSettings settings;
  TRY(settings.mode, mcp::choose_mode(take_mode_words(options)));
  TRY(settings.external, parse_external(options.external));
  TRY(settings.language, mcp::parse_language(options.interpreter));
  TRY(settings.box.launcher, launcher_path());
  TRY(settings.box.extra, extra_terms(options));
  settings.box.name_keeper = {"/proc/self/exe", "mcp", "keep-names"};
  settings.box.writes = options.layered ? mcp::Writes::Layered : mcp::Writes::Direct;
  for (const std::string& name : options.env) TRY_VOID(authority::EnvName::parse(name));
  settings.box.passed_env = options.env;
  settings.box.python = options.python;
  settings.allow_commit = options.allow_commit;
  settings.debug_directory = options.debug_directory;
  settings.version = GLOVEBOX_VERSION;
  if (options.oversized_output == "pager") {
    settings.output.large = mcp::OutputForm::Large::Pages;
  } else if (options.oversized_output != "files") {
    return fail(Code::Unsupported, "--oversized-output {}: there are files and pager",
                options.oversized_output);
  }
  take_number("MCP_REPL_PAGER_PAGE_CHARS", settings.output.page_chars);
  settings.output.page_chars = std::max(settings.output.page_chars, mcp::kLeastPageChars);
  if (options.allow_commit && !options.layered) {
    return fail(Code::Invalid, "--allow-commit needs --layered: without it there is no layer");
  }
  settings.box.secrets = secrets_directory().value_or("");
  if (!options.token_file.empty()) {
    TRY(settings.box.token_file, canonical(options.token_file));
  }
  TRY_VOID(add_checkpoints(options, settings.box));
  std::array<char, PATH_MAX> cwd{};
  if (::getcwd(cwd.data(), cwd.size()) == nullptr) return fail_os(errno, "find this directory");
  settings.cwd = cwd.data();
  TRY_VOID(check_own_places(settings));
  take_number("MCP_REPL_OUTPUT_BUNDLE_MAX_COUNT", settings.quotas.count);
  take_number("MCP_REPL_OUTPUT_BUNDLE_MAX_BYTES", settings.quotas.bundle_bytes);
  take_number("MCP_REPL_OUTPUT_BUNDLE_MAX_TOTAL_BYTES", settings.quotas.total_bytes);
  return settings;
}

void add_install_options(CLI::App& app, McpOptions& options) {
  CLI::App* install = app.add_subcommand("install", "Enter the server into a client's settings");
  install->callback([&options] { options.install = true; });
  CLI::Option* named =
      install->add_option("--client", options.clients, "codex, claude, cursor or vscode");
  install->add_flag("--all", options.all_clients, "Every client that is found here")
      ->excludes(named);
  install->add_option("--interpreter", options.install_interpreters, "python, bash; or both")
      ->delimiter(',');
  install->add_option("--arg", options.install_arguments, "One more word for the server");
}

}  // namespace

void add_mcp_options(CLI::App& app, McpOptions& options) {
  options.parsed = &app;
  app.add_option("--interpreter", options.interpreter, "python or bash");
  app.add_option("--python", options.python, "The Python to use, as the box sees it");
  app.add_option("--sandbox", options.sandbox,
                 "read-only, workspace-write (the default), danger-full-access, inherit or "
                 "inherit-codex")
      ->expected(1)
      ->take_all();
  app.add_option("--external", options.external,
                 "What the client's sandbox `external` gets: read-only (the default) or "
                 "full-access");
  app.add_option("--add-writable-root", options.writable_roots, "One more directory to write")
      ->expected(1)
      ->take_all();
  app.add_option("--add-allowed-domain", options.domains, "A host, *.host or **.host")
      ->expected(1)
      ->take_all();
  app.add_option("--config", options.config, "KEY=VALUE, as Codex has it")->expected(1)->take_all();
  app.add_option("--policy", options.policy, "A policy, united with the sandbox");
  app.add_option("--allow", options.allow, "A capability, such as read=/srv");
  app.add_option("--deny", options.deny, "The same, denied");
  app.add_option("--env", options.env, "A variable to pass on");
  app.add_option("--oversized-output", options.oversized_output, "files or pager");
  app.add_option("--debug-dir", options.debug_directory, "Write a log of all calls there");
  app.add_flag("--layered", options.layered, "Writes land in a layer, for diff and commit");
  app.add_flag("--allow-commit", options.allow_commit, "Offer the tool commit");
  app.add_option("--checkpoint-dir", options.checkpoint_directory,
                 "Sessions may be written out to this directory, and restored from it");
  app.add_option("--key-file", options.checkpoint_key_file,
                 "With it: the key of checkpoints; else $GLOVEBOX_CHECKPOINT_KEY or "
                 "$GLOVEBOX_CHECKPOINT_KEY_FILE");
  app.add_option("--listen", options.listen,
                 "Serve Streamable HTTP on this address, such as 127.0.0.1:8123");
  app.add_option("--token-file", options.token_file,
                 "With --listen: the token of clients; else it is $GLOVEBOX_MCP_TOKEN");
  add_install_options(app, options);
  // Started by the server itself (mcp/repl/name_keeper.h).
  app.add_subcommand("keep-names")->group("")->callback([&options] { options.keeps_names = true; });
}

namespace {

int install(const McpOptions& options) {
  InstallRequest request;
  request.clients = options.clients;
  if (!options.clients.empty()) request.choice = ClientChoice::Named;
  if (options.all_clients) request.choice = ClientChoice::AllFound;
  request.interpreters = options.install_interpreters;
  request.arguments = options.install_arguments;
  const auto told = install_mcp(request);
  if (!told) return refuse(told.error());
  const auto written = write_all(BorrowedFd(1), *told);
  if (!written) return refuse(written.error());
  if (request.choice != ClientChoice::None) return 0;
  return refuse(
      Error{Code::Invalid, 0, "nothing was written: choose with --client NAME, or --all"});
}

// A secret is in a file or in a variable, never among the words of the command.
Result<std::string> read_token(const McpOptions& options) {
  std::string token;
  if (!options.token_file.empty()) {
    TRY(token, read_file(options.token_file, 4'096));
    while (token.ends_with('\n')) token.pop_back();
  } else if (const char* value = std::getenv("GLOVEBOX_MCP_TOKEN"); value != nullptr) {
    token = value;
    (void)::unsetenv("GLOVEBOX_MCP_TOKEN");  // no box is to see it
  }
  if (!token.empty()) return token;
  return fail(Code::Denied,
              "--listen: clients need a token; set GLOVEBOX_MCP_TOKEN or --token-file");
}

Result<void> serve_over_http(const McpOptions& options, const mcp::ServerSettings& settings) {
  mcp::ListenSettings listen;
  listen.address = options.listen;
  TRY(listen.token, read_token(options));
  return mcp::serve_http(settings, listen);
}

}  // namespace

int mcp_command(const McpOptions& options) {
  if (options.install) return install(options);
  if (options.keeps_names) return mcp::keep_names(BorrowedFd(0));
  auto settings = make_settings(options);
  if (!settings) return refuse(settings.error());
  const auto served = options.listen.empty() ? mcp::serve_stdio(*std::move(settings))
                                             : serve_over_http(options, *settings);
  return served ? 0 : refuse(served.error());
}

}  // namespace glovebox::app
