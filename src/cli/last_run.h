// What `last` means: the layer of the last run in a workspace at or above the current directory.
//
//   STATE/last-runs/HASH   one record for each workspace that a run had, named by its path's hash
//
// A record says which layer the last run there has, or that it has none: because it changed
// nothing, or was refused. Then `last` is nothing, and no older layer takes its place: who writes
// `commit last` means the run that was just seen. A record is written when a run begins, so that a
// run that was killed is the last one, too. Of two runs at a time the one that began later is.
#pragma once

#include "base/result.h"
#include "workspace/layer/layer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace glovebox::app {

struct LastRun {
  enum class Outcome : std::uint8_t { HasLayer, ChangedNothing, Refused };

  std::string workspace{};  // absolute, without links
  Outcome outcome = Outcome::ChangedNothing;
  std::string layer{};      // HasLayer: its id
  std::string program{};    // what was run, without its arguments, which may hold secrets
  std::int64_t at = 0;      // ns since 1970; later than what was before, whatever the clock says
  std::string committed{};  // the layer that was committed last; empty: none
  std::int64_t committed_at = 0;

  friend bool operator==(const LastRun&, const LastRun&) = default;
};

// The current directory without links. Code::NotFound when it was removed.
Result<std::string> current_directory();

// A run with this layer begins.
Result<void> remember_run(const workspace::LayerFacts& layer,
                          const std::vector<std::string>& command);
// That run is over and its layer is gone, for nothing was changed.
Result<void> forget_layer(const workspace::LayerFacts& layer);
// A run that has no layer there, for whatever reason. It is remembered also where no run is known:
// a session may have left something behind there. Without a state directory there is no `last`.
Result<void> remember_without_layer(const std::string& workspace, LastRun::Outcome outcome,
                                    const std::vector<std::string>& command);
Result<void> remember_commit(const workspace::LayerFacts& layer);

// The last run at or above a directory: of the innermost workspace, when one run had several.
// Code::NotFound when none is known.
Result<LastRun> find_last_run(const std::string& directory);
// The same for commits.
Result<LastRun> find_last_commit(const std::string& directory);

// "'make' in /home/me/project on 2026-11-18 at 00:45:12", safe for a terminal.
std::string to_text(const LastRun& run);

// Forgets the oldest when there are more than 500; called when layers are collected. No clock is
// asked: it may have been set.
void collect_last_runs();

}  // namespace glovebox::app
