#include "attack/attack_command.h"
#include "base/result.h"
#include "cli/commands.h"
#include "cli/completion/completion_command.h"
#include "cli/mcp/mcp_command.h"
#include "cli/secret_command.h"
#include "cli/serve_command.h"
#include "cli/session/session_command.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstring>
#include <exception>

#include <unistd.h>

namespace glovebox::app {
namespace {

constexpr const char* kRunExamples =
    "Examples:\n"
    "  glovebox run -- python3 -c 'print(1 + 1)'\n"
    "  glovebox run -w . --memory 512MiB --wall 60s -- make test\n"
    "  glovebox run --read ~/data --env MODE=fast -- ./analyse ~/data/in.csv\n"
    "\n"
    "Exit code: the command's own; 128+n after signal n; 124 when a limit ended it; 125 when it "
    "was\n"
    "refused or could not be started; 126 and 127 as a shell.\n";

struct Words {
  RunOptions run;
  RunOptions explain;
  DoctorOptions doctor;
  PolicyOptions policy;
  DiffOptions diff;
  CommitOptions commit;
  UndoOptions undo;
  LayersOptions layers;
  ServeOptions serve;
  CompletionOptions completion;
  SessionOptions session;
  AttackOptions attack;
  McpOptions mcp;
  SecretOptions secret;
};

// Everything after the first "--" is the command, word for word; only what is before it is options.
void split_command(int& argc, char** argv, std::vector<std::string>& command) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--") != 0) continue;
    command.assign(argv + i + 1, argv + argc);
    argc = i;
    return;
  }
}

void add_run(CLI::App& app, Words& words) {
  add_run_options(app, words.run);
  app.add_option("--report", words.run.report, "Write a JSON report to FILE ('-': standard error)");
  app.add_flag("--outlive-parent", words.run.outlive_parent,
               "Go on when the process that started glovebox ends");
  app.add_flag("-q,--quiet", words.run.quiet, "Do not list what changed in the workspace");
  app.footer(kRunExamples);
}

struct Command {
  const char* name;
  const char* about;
  void (*add)(CLI::App& app, Words& words);
  int (*run)(const Words& words);
};

int print_completion(const Words& words);

constexpr Command kCommands[] = {
    {"run", "Run a command in a box: glovebox run [options] -- CMD ...", add_run,
     [](const Words& words) { return run_command(words.run); }},
    {"explain", "Print what `run` would do, step by step, and do nothing",
     [](CLI::App& app, Words& words) { add_run_options(app, words.explain); },
     [](const Words& words) { return explain_command(words.explain); }},
    {"diff", "Print what a box changed in its workspace",
     [](CLI::App& app, Words& words) { add_diff_options(app, words.diff); },
     [](const Words& words) { return diff_command(words.diff); }},
    {"commit", "Take over what a box changed in its workspace",
     [](CLI::App& app, Words& words) { add_commit_options(app, words.commit); },
     [](const Words& words) { return commit_command(words.commit); }},
    {"undo", "Put back what the last commit changed",
     [](CLI::App& app, Words& words) { add_undo_options(app, words.undo); },
     [](const Words& words) { return undo_command(words.undo); }},
    {"layers", "List the layers that boxes left, or remove some",
     [](CLI::App& app, Words& words) { add_layers_options(app, words.layers); },
     [](const Words& words) { return layers_command(words.layers); }},
    {"session", "Boxes that stay: start, run, shell, put, get, diff, commit, fork, stop",
     [](CLI::App& app, Words& words) { add_session_options(app, words.session); },
     [](const Words& words) { return session_command(words.session); }},
    {"mcp",
     "Offer a sandboxed Python or bash to agents, as an MCP server on standard input and output",
     [](CLI::App& app, Words& words) { add_mcp_options(app, words.mcp); },
     [](const Words& words) { return mcp_command(words.mcp); }},
    {"policy", "Check, print, explain and compare policies",
     [](CLI::App& app, Words& words) { add_policy_options(app, words.policy); },
     [](const Words& words) { return policy_command(words.policy); }},
    {"secret", "Keep values that boxes can be handed by name",
     [](CLI::App& app, Words& words) { add_secret_options(app, words.secret); },
     [](const Words& words) { return secret_command(words.secret); }},
    {"serve", "Give sessions to others over HTTP",
     [](CLI::App& app, Words& words) { add_serve_options(app, words.serve); },
     [](const Words& words) { return serve_command(words.serve); }},
    {"doctor", "Try what this host can enforce, and say how to fix what it cannot",
     [](CLI::App& app, Words& words) {
       app.add_flag("--json", words.doctor.json, "Print one JSON object");
     },
     [](const Words& words) { return doctor_command(words.doctor); }},
    {"attack", "Try every known way out of a box on this machine, and print a scorecard",
     [](CLI::App& app, Words& words) { add_attack_options(app, words.attack); },
     [](const Words& words) { return attack_command(words.attack); }},
    {"completion", "Print a script that completes these words in bash, zsh or fish",
     [](CLI::App& app, Words& words) { add_completion_options(app, words.completion); },
     print_completion},
};

const Command* find_command(std::string_view name) {
  for (const Command& command : kCommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

// Only the command that was chosen is there, with its options: building them all would take longer
// than parsing, and every run pays for it. Without a choice the others are listed by name.
void add_commands(CLI::App& app, Words& words, std::string_view chosen) {
  const bool known = find_command(chosen) != nullptr;
  for (const Command& command : kCommands) {
    if (known && chosen != command.name) continue;
    CLI::App* added = app.add_subcommand(command.name, command.about);
    if (known) command.add(*added, words);
  }
}

// A script is about all commands, so this one alone needs the options of them all.
int print_completion(const Words& words) {
  CLI::App all("", "glovebox");
  all.set_version_flag("--version");
  Words unused;
  for (const Command& command : kCommands) {
    command.add(*all.add_subcommand(command.name, command.about), unused);
  }
  return completion_command(words.completion, all);
}

int dispatch(const CLI::App& app, const Words& words) {
  for (const CLI::App* chosen : app.get_subcommands()) {
    if (const Command* command = find_command(chosen->get_name())) return command->run(words);
  }
  return kRefusedExit;
}

std::string command_names() {
  std::string names;
  for (const Command& command : kCommands) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", command.name);
  }
  return names;
}

// What was understood before the problem is in `words`.
int refuse_words(const CLI::ParseError& problem, std::string_view chosen, const Words& words) {
  const std::string sentence =
      find_command(chosen) != nullptr
          ? fmt::format("{} (see 'glovebox {} --help')", problem.what(), chosen)
          : fmt::format("'{}' is not a command: there are {} (see 'glovebox --help')", chosen,
                        command_names());
  const Error error{Code::Invalid, 0, sentence};
  return chosen == "run" ? refuse_run(words.run, error) : refuse(error);
}

int run_cli(int argc, char** argv) {
  const int all = argc;
  std::vector<std::string> command;
  split_command(argc, argv, command);
  const std::string_view chosen = argc > 1 ? argv[1] : "";

  CLI::App app("Runs code that nobody vouches for in a sealed box.", "glovebox");
  app.set_version_flag("--version", std::string("glovebox " GLOVEBOX_VERSION));
  app.require_subcommand(1);
  Words words;
  add_commands(app, words, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& problem) {
    words.run.command = std::move(command);
    return refuse_words(problem, chosen, words);
  }
  words.run.command = command;
  words.run.argc = all;
  words.run.argv = argv;
  words.session.command = command;
  words.explain.command = std::move(command);
  return dispatch(app, words);
}

}  // namespace
}  // namespace glovebox::app

int main(int argc, char** argv) {
  try {
    const int code = glovebox::app::run_cli(argc, argv);
    // Everything is written and put away; taking the rest of this process down in good order would
    // only keep the caller waiting.
    (void)std::fflush(nullptr);
    ::_exit(code);
  } catch (const glovebox::Bug& bug) {
    (void)std::fprintf(stderr, "glovebox: a bug in glovebox: %s\n", bug.message.c_str());
  } catch (const std::exception& problem) {
    (void)std::fprintf(stderr, "glovebox: a bug in glovebox: %s\n", problem.what());
  }
  return glovebox::app::kRefusedExit;
}
