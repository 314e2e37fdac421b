// `glovebox secret`: the secrets that boxes can be handed by name.
#pragma once

#include "cli/cli.h"

#include <cstdint>
#include <string>

namespace glovebox::app {

struct SecretOptions {
  enum class Act : std::uint8_t { Set, List, Remove };
  Act act = Act::List;
  std::string name;
};
void add_secret_options(CLI::App& app, SecretOptions& options);

// A value is read from standard input: on a command line everybody could see it.
int secret_command(const SecretOptions& options);

}  // namespace glovebox::app
