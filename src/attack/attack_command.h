// `glovebox attack`: tries every known way out of a box on this machine.
#pragma once

#include "cli/cli.h"

#include <string>
#include <vector>

namespace glovebox::app {

struct AttackOptions {
  std::string peer;  // "bwrap", "none"
  std::string as;    // "root", "user"
  std::vector<std::string> backends;
  std::vector<int> classes;
  bool json = false;
  bool list = false;
  bool verbose = false;
};
void add_attack_options(CLI::App& app, AttackOptions& options);

// 1 when something got out.
int attack_command(const AttackOptions& options);

}  // namespace glovebox::app
