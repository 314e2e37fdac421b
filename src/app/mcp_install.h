// The server's entry in the configuration of MCP clients.
#pragma once

#include "base/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace glovebox::app {

struct InstallRequest {
  std::vector<std::string> clients;       // empty: codex and claude, as far as they are there
  std::vector<std::string> interpreters;  // empty: python
  std::vector<std::string> arguments;     // more words for the server
};

// Writes what is not there, changes what is ours, and leaves everything else as it is, comments and
// order included. Doing it twice is doing it once.
Result<void> install_mcp(const InstallRequest& request);

// The two kinds of files, as texts: what the file becomes. Exposed for tests.
struct ServerEntry {
  std::string name;     // glovebox-python
  std::string command;  // the program
  std::vector<std::string> arguments;
};
Result<std::string> with_codex_entry(std::string_view toml, const ServerEntry& entry);
// `list` is the member that holds the servers: mcpServers, or servers for VS Code.
Result<std::string> with_json_entry(std::string_view json, std::string_view list,
                                    const ServerEntry& entry);

}  // namespace glovebox::app
