// What a caller asks for. Every face (command line, HTTP, MCP, C++, Python) fills the same value,
// so they cannot differ. Nothing here has been checked against a host: make_plan does that.
#pragma once

#include "authority/authority_set.h"
#include "authority/backend.h"
#include "authority/workspace_mode.h"
#include "host/path_facts.h"
#include "plan/network_plan.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace glovebox::plan {

enum class Loopback : std::uint8_t { Up, Down };
// Who lives in the box: one command, with whose end it ends; or the session agent as its PID 1,
// which runs what it is asked to until it is told to end.
enum class Resident : std::uint8_t { Command, Agent };

// The most frozen layers that an overlay can stand on.
inline constexpr std::size_t kMaxFrozen = 64;

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

// Where the bytes of a layer lie. A disk budget bounds the last two; with the first it is refused.
enum class LayerBacking : std::uint8_t {
  Directory,  // of the layer
  Memory,     // the box's private memory, which the supervisor is handed a descriptor of
  Image,      // a filesystem of its own in a file of the layer; as root
};

// A directory that is handed in as a whole, at its own path or at another. Handing it in grants
// what its mode says, below every denial of the authority. Files can be handed in too, except as
// overlays.
struct Workspace {
  host::PathFacts at;
  WorkspaceMode mode = WorkspaceMode::Write;
  std::string inside{};  // its path in the box, if that is another
  // With Overlay: a directory with `upper` and `work` in it, or the image that has both.
  std::optional<host::PathFacts> layer{};
  LayerBacking backing = LayerBacking::Directory;
  // With Overlay: what frozen layers hold, which are not written to any more, between the layer and
  // the original, the topmost first. Several boxes may share them.
  std::vector<host::PathFacts> frozen{};
  // With Overlay: the layer's start, in ns since 1970. The command starts when the clock that files
  // are stamped with is past it.
  std::uint64_t start_ns = 0;

  const std::string& path_inside() const { return inside.empty() ? at.path : inside; }
  friend bool operator==(const Workspace&, const Workspace&) = default;
};

// Which policy a request stands under, for reports: the name it was asked for by, and its digest.
struct PolicyMark {
  std::string name;
  std::string digest;
  friend bool operator==(const PolicyMark&, const PolicyMark&) = default;
};

struct SandboxSpec {
  Resident resident = Resident::Command;
  std::vector<std::string> command;  // empty for an agent
  Backend backend = Backend::Process;
  // Everything the box may do: what a policy grants and what was handed in, united, with its paths
  // resolved (host/resolve_authority.h); and what is known of those that exist.
  authority::AuthoritySet authority;
  std::map<std::string, host::PathFacts> paths;
  // The secrets that the authority allows, by name (host/secrets.h).
  std::map<std::string, host::PathFacts> secrets;
  // The caller's values of variables that the authority names without one.
  std::vector<EnvEntry> caller_env;
  std::vector<Workspace> workspaces;  // the box starts in the first
  // The most that can be kept of a disk budget here, when layers lie in memory or in an image.
  std::optional<std::uint64_t> disk_at_most;
  std::optional<std::uint64_t> cpus_milli;  // 1500: one and a half cores
  std::string lang = "C.UTF-8";
  std::string term = "dumb";
  std::string hostname = "box";
  std::optional<std::string> cwd;
  std::optional<uid_t> uid;  // ids as the box sees them
  std::optional<gid_t> gid;
  Loopback loopback = Loopback::Up;
  std::vector<Publication> published;  // ports of the box that are opened outside
  std::string resolver;                // name servers to ask for the box; empty: the host's
  std::optional<TerminalSize> terminal;
  std::set<std::string> waived;
  std::optional<PolicyMark> policy;
};

}  // namespace glovebox::plan
