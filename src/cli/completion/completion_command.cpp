#include "cli/completion/completion_command.h"

#include "base/file.h"
#include "cli/commands.h"
#include "cli/completion/completion.h"

#include <CLI/CLI.hpp>

namespace glovebox::app {

void add_completion_options(CLI::App& app, CompletionOptions& options) {
  app.add_option("SHELL", options.shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app.footer(
      "Examples:\n"
      "  source <(glovebox completion bash)       in ~/.bashrc\n"
      "  source <(glovebox completion zsh)        in ~/.zshrc, after compinit\n"
      "  glovebox completion fish | source        in ~/.config/fish/config.fish\n");
}

int completion_command(const CompletionOptions& options, CLI::App& app) {
  const CompletionCommand words = describe_words(app);
  const std::string script = options.shell == "zsh"    ? zsh_completion(words)
                             : options.shell == "fish" ? fish_completion(words)
                                                       : bash_completion(words);
  const auto written = write_all(BorrowedFd(1), script);
  return written ? 0 : refuse(written.error());
}

}  // namespace glovebox::app
