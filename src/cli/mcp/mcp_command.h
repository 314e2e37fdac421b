// `glovebox mcp`: the MCP server, and its entry in the configuration of clients.
#pragma once

#include "cli/cli.h"
#include "mcp/profile/modes.h"

#include <string>
#include <vector>

namespace glovebox::app {

// As typed.
struct McpOptions {
  // Knows the order of the words about the sandbox, which matters.
  const CLI::App* parsed = nullptr;
  std::vector<std::string> sandbox;
  std::string external = "read-only";
  std::vector<std::string> writable_roots;
  std::vector<std::string> domains;
  std::vector<std::string> config;
  std::string interpreter = "python";
  std::string python;
  std::string oversized_output = "files";
  std::string policy;
  std::vector<std::string> allow;
  std::vector<std::string> deny;
  std::vector<std::string> env;
  std::string debug_directory;
  std::string listen;      // empty: standard input and output
  std::string token_file;  // with it
  bool layered = false;
  bool allow_commit = false;
  std::string checkpoint_directory;  // empty: no checkpoints
  std::string checkpoint_key_file;
  bool install = false;
  bool keeps_names = false;  // as the process of mcp::NameKeeper
  std::vector<std::string> clients;
  bool all_clients = false;
  std::vector<std::string> install_interpreters;
  std::vector<std::string> install_arguments;
};

void add_mcp_options(CLI::App& app, McpOptions& options);
int mcp_command(const McpOptions& options);

}  // namespace glovebox::app
