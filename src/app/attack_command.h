// `glovebox attack`: tries every known way out of a box on this machine.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace glovebox::app {

struct AttackOptions {
  std::string peer;  // "bwrap"
  std::string as;    // "root", "user"
  bool json = false;
  bool list = false;
  bool verbose = false;
};
void add_attack_options(CLI::App& app, AttackOptions& options);

// 1 when something got out.
int attack_command(const AttackOptions& options);

}  // namespace glovebox::app
