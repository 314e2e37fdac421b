// What a caller asks for. Every face (command line, HTTP, MCP, C++, Python) fills the same value,
// so they cannot differ. Nothing here has been checked against a host: make_plan does that.
#pragma once

#include "host/path_facts.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace glovebox::plan {

enum class Access : std::uint8_t { Read, Write };  // ordered: Write includes Read
enum class Backend : std::uint8_t { Process, Cell, Microvm };
enum class Loopback : std::uint8_t { Up, Down };

// A tree or a single file of the host, handed into the box at its own path.
struct Grant {
  host::PathFacts path;
  Access access = Access::Read;
  friend bool operator==(const Grant&, const Grant&) = default;
};

// Limits that were asked for by name. What is not set gets the default that the host can enforce.
struct Limits {
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> pids;
  std::optional<std::uint64_t> cpus_milli;  // 1500: one and a half cores
  std::optional<std::chrono::nanoseconds> cpu_time;
  std::optional<std::chrono::nanoseconds> wall;
  std::optional<std::uint64_t> output_bytes;
  std::optional<std::uint64_t> open_files;
  std::optional<std::uint64_t> disk_bytes;  // the private /tmp, /run and /home together
  friend bool operator==(const Limits&, const Limits&) = default;
};

struct EnvEntry {
  std::string name;
  std::string value;
  friend bool operator==(const EnvEntry&, const EnvEntry&) = default;
};

// The command's terminal, when it gets one of its own.
struct TerminalSize {
  std::uint16_t rows = 24;
  std::uint16_t columns = 80;
  friend bool operator==(const TerminalSize&, const TerminalSize&) = default;
};

struct SandboxSpec {
  std::vector<std::string> command;
  Backend backend = Backend::Process;
  std::optional<Grant> workspace;
  std::vector<Grant> grants;
  std::vector<EnvEntry> env;
  std::string lang = "C.UTF-8";
  std::string term = "dumb";
  Limits limits;
  std::string hostname = "box";
  std::optional<std::string> cwd;
  std::optional<uid_t> uid;  // ids as the box sees them
  std::optional<gid_t> gid;
  Loopback loopback = Loopback::Up;
  std::optional<TerminalSize> terminal;
  std::set<std::string> waived;
};

}  // namespace glovebox::plan
