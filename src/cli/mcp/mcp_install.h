// The server's entry in the configuration of MCP clients.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::app {

// Settings of clients that were not named are not written: without --client or --all the answer
// says what would be.
enum class ClientChoice : std::uint8_t { Named, AllFound, None };

struct InstallRequest {
  ClientChoice choice = ClientChoice::None;
  std::vector<std::string> clients;       // with Named
  std::vector<std::string> interpreters;  // empty: python
  std::vector<std::string> arguments;     // more words for the server
};

// Writes what is not there, changes what is ours, and leaves everything else as it is, comments and
// order included. Doing it twice is doing it once. Returns what was done, or would be, a line for
// each client and interpreter.
Result<std::string> install_mcp(const InstallRequest& request);

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
