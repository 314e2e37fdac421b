// The words of `glovebox run` and `glovebox explain`, and what they mean as a SandboxSpec.
#pragma once

#include "base/result.h"
#include "cli/cli.h"
#include "plan/spec.h"

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

// Whether DIR:MODE names a mode.
bool names_a_mode(std::string_view workspace);

void add_run_options(CLI::App& app, RunOptions& options);

// The workspaces and then the binds that were named, looked up.
Result<std::vector<plan::Workspace>> parse_workspaces(const RunOptions& options);

// The rules that the words come to, as typed: paths are absolute, links are not followed.
Result<authority::AuthoritySet> handed_authority(const RunOptions& options);

// Looks up the paths that were named and parses the amounts. Every word becomes a rule of one
// authority: "--read DIR" and "--allow read=DIR" are the same.
Result<plan::SandboxSpec> to_spec(const RunOptions& options);

}  // namespace glovebox::app
