// What can be asked about the state of sessions: recycle, fork, checkpoint, restore.
#pragma once

#include "authority/authority_set.h"
#include "base/unique_fd.h"
#include "checkpoint/key.h"
#include "session/state/snapshot.h"
#include "session/state/spool_quota.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::session {

// What becomes of the layers when a session gets a fresh box.
enum class Recycling : std::uint8_t {
  KeepLayers,  // the new box finds what the old one wrote
  DropLayers,  // it finds the original
};

// Looks at what is about to be asked for once more, as the first time, and may cut it down or
// refuse it. It runs on another thread, and may be asked several times about one request.
using Review = std::function<Result<void>(BoxRequest&)>;

struct RecycleRequest {
  Recycling layers = Recycling::KeepLayers;
  // Values for variables that are known by name alone, because a former service had them.
  std::vector<plan::EnvEntry> env{};
  Review review{};
  // Asked once, on the loop, before a session that is dead becomes one more that is alive. May
  // refuse; may be empty.
  std::function<Result<void>()> take_room{};
};

// Whether what runs in a session keeps it from being forked or written out. Runs in its shell are
// waited for in any case.
enum class WhileRunning : std::uint8_t {
  Refuse,  // with what is under way: Code::Exhausted
  End,     // what is under way ends with the box (fork), or goes on meanwhile (checkpoint)
};

// The most children of one fork.
inline constexpr std::size_t kMaxForks = 1000;

struct ForkRequest {
  std::size_t count = 1;
  // Cuts the children's authority down; what the session works in stays. Nothing: the same.
  std::optional<authority::AuthoritySet> ceiling{};
  // Budgets for each child. Of two on one thing the smaller counts, so none is larger than the
  // parent's.
  authority::AuthoritySet budgets{};
  std::optional<std::uint64_t> cpus_milli{};
  std::string name{};  // of the children, with a number behind it; empty: after the parent's
  WhileRunning running = WhileRunning::Refuse;
  Review review{};  // of the session itself; its children have no more
};

struct CheckpointRequest {
  checkpoint::Key key;
  std::string tenant{};  // whose it is: who restores it must say the same
  // What it must hold. Memory is refused by name, with what is missing for it.
  std::vector<StateKind> state{StateKind::Config, StateKind::Files};
  WhileRunning running = WhileRunning::Refuse;
};

// A checkpoint in a file without a name, read from its start.
struct CheckpointFile {
  UniqueFd file;
  SpoolShare share;  // lives as long as the file
  std::uint64_t size = 0;
  std::string tag;               // tells it from all others
  std::vector<StateKind> state;  // what it holds
  std::vector<LayerManifest> layers;
  std::string used;  // as SessionManager::usage() said of the session
};

struct RestoreRequest {
  checkpoint::Key key;
  std::string tenant{};
  Review review{};
};

struct Restored {
  SessionInfo info;
  std::string tag;               // of the file
  std::vector<StateKind> state;  // what came back
};

}  // namespace glovebox::session
