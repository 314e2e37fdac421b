// What a SessionManager is asked for, and what it answers, beside what is in session/state and
// session/store.
#pragma once

#include "authority/authority_set.h"
#include "base/unique_fd.h"
#include "egress/broker.h"
#include "host/facts.h"
#include "session/box/run.h"
#include "session/manager/pool_stats.h"
#include "session/state/spool_quota.h"
#include "workspace/commit/commit.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace glovebox::session {

enum class DiffForm : std::uint8_t { TarGz, Json, Unified };

// A finished body in a file without a name, read from its start.
struct DiffBody {
  UniqueFd file;
  SpoolShare share;  // lives as long as the file
  std::uint64_t size = 0;
  std::size_t changes = 0;
};

// Which of a session's workspaces is meant: its path, or empty for the first that has a layer.
struct LayerChoice {
  std::string workspace;
};

struct CommitRequest {
  LayerChoice where;
  workspace::Selection selection;
  workspace::Act act = workspace::Act::Apply;
  WhenBusy when_busy = WhenBusy::Wait;
};

// What of a session is to be another. Nothing: as it is.
struct SessionChange {
  std::optional<std::map<std::string, std::string>> labels;
  std::optional<std::chrono::milliseconds> idle_timeout;  // 0: never
  std::optional<std::string> name;
};

// What the service as a whole can do, for /capabilities.
struct Abilities {
  bool available = false;  // a box was started and ended on this host
  std::string problem;     // why not
  bool overlay = false;
  host::Tier tier = host::Tier::User;
};

struct SessionCounts {
  std::size_t alive = 0;
  std::size_t dead = 0;
  std::size_t starting = 0;
  std::uint64_t launcher_restarts = 0;
  PoolStats parked;
};

// What one session may still do. Capabilities of other kinds than those of the network, and
// budgets that the kernel cannot lower while a box runs, are no part of it.
struct SessionNarrowing {
  std::optional<authority::AuthoritySet> network;  // nothing: as it is
  authority::AuthoritySet budgets;                 // memory, pids, wall, output, connections, ...
  std::optional<std::uint64_t> cpus_milli;
  egress::Existing existing = egress::Existing::Keep;
};

}  // namespace glovebox::session
