#include "app/commands.h"
#include "base/result.h"

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

// The subcommands. Only the one that was chosen gets its options: building them all would take
// longer than parsing, and every run pays for it.
void add_run(CLI::App& app, Words& words, std::string_view chosen) {
  CLI::App* run =
      app.add_subcommand("run", "Run a command in a box: glovebox run [options] -- CMD ...");
  if (chosen != "run") return;
  add_run_options(*run, words.run);
  run->add_option("--report", words.run.report,
                  "Write a JSON report to FILE ('-': standard error)");
  run->add_flag("--outlive-parent", words.run.outlive_parent,
                "Go on when the process that started glovebox ends");
  run->footer(kRunExamples);
}

void add_explain(CLI::App& app, Words& words, std::string_view chosen) {
  CLI::App* explain =
      app.add_subcommand("explain", "Print what `run` would do, step by step, and do nothing");
  if (chosen == "explain") add_run_options(*explain, words.explain);
}

void add_doctor(CLI::App& app, Words& words, std::string_view chosen) {
  CLI::App* doctor = app.add_subcommand(
      "doctor", "Try what this host can enforce, and say how to fix what it cannot");
  if (chosen == "doctor") doctor->add_flag("--json", words.doctor.json, "Print one JSON object");
}

int dispatch(const CLI::App& app, const Words& words) {
  if (app.got_subcommand("run")) return run_command(words.run);
  if (app.got_subcommand("explain")) return explain_command(words.explain);
  return doctor_command(words.doctor);
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
  add_run(app, words, chosen);
  add_explain(app, words, chosen);
  add_doctor(app, words, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::RequiredError&) {
    return refuse(Error{Code::Invalid, 0,
                        fmt::format("'{}' is not a command: there are run, explain and doctor (see "
                                    "'glovebox --help')",
                                    chosen)});
  } catch (const CLI::ParseError& problem) {
    return refuse(Error{Code::Invalid, 0,
                        fmt::format("{} (see 'glovebox {} --help')", problem.what(), chosen)});
  }
  words.run.command = command;
  words.run.argc = all;
  words.run.argv = argv;
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
