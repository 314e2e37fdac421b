// The options of `glovebox run`, `explain` and `session start`, and the request that they mean.
#pragma once

#include "base/result.h"
#include "cli/cli.h"
#include "request/box_request.h"

#include <optional>
#include <string>
#include <vector>

namespace glovebox::app {

// As typed. CLI11 fills this and does nothing else.
struct RunOptions {
  std::vector<std::string> workspaces;
  std::vector<std::string> binds;
  std::vector<std::string> read;
  std::vector<std::string> write;
  std::string policy;
  std::string if_policy;
  std::vector<std::string> allow;
  std::vector<std::string> deny;
  std::vector<std::string> env;
  std::string backend;
  std::string memory;
  std::string pids;
  std::string cpu_time;
  std::string cpus;
  std::string wall;
  std::string output_limit;
  std::string open_files;
  std::string disk;
  std::string inodes;
  std::string hostname = "box";
  std::string cwd;
  std::string uid;
  std::string gid;
  std::vector<std::string> waive;
  std::vector<std::string> publish;
  std::string resolver;
  std::string report;
  bool no_loopback = false;
  bool outlive_parent = false;
  bool quiet = false;
  std::vector<std::string> command;
  int argc = 0;  // as main got them
  char** argv = nullptr;
};

void add_run_options(CLI::App& app, RunOptions& options);

// The paths of the workspaces and binds that were named, resolved; for options that are refused as
// a whole, too.
Result<std::vector<std::string>> handed_in_places(const RunOptions& options);

// Looks up the paths that were typed, relative to the current directory, and parses the amounts.
// Every grant becomes a rule of one authority: "--read DIR" and "--allow read=DIR" are the same.
Result<session::BoxRequest> to_request(const RunOptions& options);

}  // namespace glovebox::app
