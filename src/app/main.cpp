#include <cstdio>
#include <cstring>
#include <exception>

#include <CLI/CLI.hpp>

#include "app/commands.h"
#include "base/result.h"

namespace glovebox::app {
namespace {

constexpr const char* kRunExamples =
    "Examples:\n"
    "  glovebox run -- python3 -c 'print(1 + 1)'\n"
    "  glovebox run -w . --memory 512MiB --wall 60s -- make test\n"
    "  glovebox run --read ~/data --env MODE=fast -- ./analyse ~/data/in.csv\n"
    "\n"
    "Exit code: the command's own; 128+n after signal n; 124 when a limit ended it; 125 when it was\n"
    "refused or could not be started; 126 and 127 as a shell.\n";

struct Words {
  RunOptions run;
  RunOptions explain;
  DoctorOptions doctor;
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

int run_cli(int argc, char** argv) {
  const int all = argc;
  std::vector<std::string> command;
  split_command(argc, argv, command);

  CLI::App app("Runs code that nobody vouches for in a sealed box.", "glovebox");
  app.set_version_flag("--version", std::string("glovebox " GLOVEBOX_VERSION));
  app.require_subcommand(1);
  Words words;
  CLI::App* run = app.add_subcommand("run", "Run a command in a box: glovebox run [options] -- CMD ...");
  add_run_options(*run, words.run);
  run->add_option("--report", words.run.report, "Write a JSON report to FILE ('-': standard error)");
  run->add_flag("--outlive-parent", words.run.outlive_parent,
                "Go on when the process that started glovebox ends");
  run->footer(kRunExamples);
  CLI::App* explain =
      app.add_subcommand("explain", "Print what `run` would do, step by step, and do nothing");
  add_run_options(*explain, words.explain);
  CLI::App* doctor = app.add_subcommand(
      "doctor", "Try what this host can enforce, and say how to fix what it cannot");
  doctor->add_flag("--json", words.doctor.json, "Print one JSON object");

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& problem) {
    return refuse(Error{Code::Invalid, 0,
                        fmt::format("{} (see 'glovebox run --help')", problem.what())});
  }
  words.run.command = command;
  words.run.argc = all;
  words.run.argv = argv;
  words.explain.command = std::move(command);
  if (run->parsed()) return run_command(words.run);
  if (doctor->parsed()) return doctor_command(words.doctor);
  return explain_command(words.explain);
}

}  // namespace
}  // namespace glovebox::app

int main(int argc, char** argv) {
  try {
    return glovebox::app::run_cli(argc, argv);
  } catch (const glovebox::Bug& bug) {
    (void)std::fprintf(stderr, "glovebox: a bug in glovebox: %s\n", bug.message.c_str());
  } catch (const std::exception& problem) {
    (void)std::fprintf(stderr, "glovebox: a bug in glovebox: %s\n", problem.what());
  }
  return glovebox::app::kRefusedExit;
}
