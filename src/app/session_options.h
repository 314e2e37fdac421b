// The words of `glovebox session`.
#pragma once

#include "app/layer_options.h"
#include "app/run_options.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace glovebox::app {

struct SessionOptions {
  enum class Act : std::uint8_t {
    Start,
    List,
    Run,
    Shell,
    Put,
    Get,
    Ls,
    Diff,
    Commit,
    Undo,
    Report,
    Stop
  };
  Act act = Act::List;
  RunOptions box;  // start: what the box may do
  std::string name;
  std::string idle;
  std::vector<std::string> labels;
  bool prove = false;
  std::string session = "last";
  std::string code;                  // run: -c CODE
  std::vector<std::string> command;  // run: the words after --
  std::vector<std::string> env;
  std::string timeout;
  std::string from;
  std::string to;
  std::uint64_t depth = 1;
  DiffOptions diff;
  CommitOptions commit;
  bool json = false;
  bool all = false;
  bool keep = false;
};

void add_session_options(CLI::App& app, SessionOptions& options);

}  // namespace glovebox::app
