// `glovebox completion bash|zsh|fish`: prints a script that completes the command's words.
#pragma once

#include "cli/cli.h"

#include <string>

namespace glovebox::app {

struct CompletionOptions {
  std::string shell;
};
void add_completion_options(CLI::App& app, CompletionOptions& options);

// `app` is the whole command line: every command with its options.
int completion_command(const CompletionOptions& options, CLI::App& app);

}  // namespace glovebox::app
