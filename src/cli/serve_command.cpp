#include "cli/serve_command.h"

#include "cli/commands.h"
#include "cli/layers.h"
#include "serve/run_service.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>

namespace glovebox::app {
namespace {

// The launcher is the program beside this one.
Result<std::string> find_launcher() {
  std::error_code problem;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", problem);
  if (problem) return fail_os(problem.value(), "read /proc/self/exe");
  const std::filesystem::path launcher = self.parent_path() / "glovebox-launcher";
  if (!std::filesystem::exists(launcher, problem)) {
    return fail(Code::NotFound, "{}: not there (it comes with glovebox)", launcher.string());
  }
  return launcher.string();
}

Result<serve::ServiceSetup> make_setup(const ServeOptions& options) {
  serve::ServiceSetup setup;
  if (!options.config.empty()) {
    TRY(setup.config, serve::load_config(options.config));
    setup.own_files.push_back(std::filesystem::absolute(options.config).string());
  }
  serve::Config& config = setup.config;
  // Words on the command line take the place of the file's.
  if (!options.listen.empty()) config.listen = options.listen;
  if (!options.socket.empty()) {
    config.socket = std::filesystem::absolute(options.socket).string();
    if (options.listen.empty() && options.config.empty()) config.listen.clear();
  }
  if (!options.token_file.empty()) {
    serve::TokenConfig token;
    token.name = "command-line";
    token.file = std::filesystem::absolute(options.token_file).string();
    config.tokens.push_back(std::move(token));
  }
  if (!options.state.empty()) {
    config.state_directory = std::filesystem::absolute(options.state).string();
  }
  if (config.state_directory.empty()) {
    TRY(const std::string state, state_directory());
    config.state_directory = state + "/serve";
  }
  // Who has no home has no secrets, and serves without them.
  if (config.secrets_directory.empty()) {
    config.secrets_directory = secrets_directory().value_or("");
  }
  TRY(setup.launcher, find_launcher());
  return setup;
}

}  // namespace

void add_serve_options(CLI::App& app, ServeOptions& options) {
  app.add_option("--config", options.config, "Settings, a TOML file")->type_name("FILE");
  app.add_flag("--check-config", options.check, "Say what is wrong with the settings, and end");
  app.add_option("--listen", options.listen, "Address to listen on (default 127.0.0.1:44772)")
      ->type_name("HOST:PORT");
  app.add_option("--socket", options.socket, "Unix socket to listen on")->type_name("PATH");
  app.add_option("--token-file", options.token_file, "File that holds the access token")
      ->type_name("FILE");
  app.add_option("--state", options.state, "Directory for layers and the list of sessions")
      ->type_name("DIR");
}

int serve_command(const ServeOptions& options) {
  auto setup = make_setup(options);
  if (!setup) return refuse(setup.error());
  if (options.check) {
    if (const auto checked = serve::check_setup(*setup); !checked) return refuse(checked.error());
    (void)std::puts("the settings are fine");
    return 0;
  }
  if (const auto served = serve::run_service(*setup); !served) {
    return refuse(served.error());
  }
  return 0;
}

}  // namespace glovebox::app
