// The words of `glovebox policy`.
#pragma once

#include "cli/cli.h"

#include <cstdint>
#include <string>
#include <vector>

namespace glovebox::app {

struct PolicyOptions {
  enum class Act : std::uint8_t { Check, Show, Explain, Diff, List };

  Act act = Act::List;
  std::vector<std::string> files;
  std::string first;
  std::string second;
  std::string format = "normal";
  std::vector<std::string> read;
  std::vector<std::string> write;
  std::vector<std::string> exec;
  std::vector<std::string> connect;
  std::vector<std::string> import;
  std::vector<std::string> env;
  std::vector<std::string> terms;
};

void add_policy_options(CLI::App& app, PolicyOptions& options);

}  // namespace glovebox::app
