// `glovebox serve`: sessions over HTTP.
#pragma once

#include "cli/cli.h"

#include <string>
#include <vector>

namespace glovebox::app {

struct ServeOptions {
  std::string config;
  bool check = false;
  std::vector<std::string> listen;
  std::string socket;
  std::string token_file;
  std::string state;
};

void add_serve_options(CLI::App& app, ServeOptions& options);
int serve_command(const ServeOptions& options);

}  // namespace glovebox::app
