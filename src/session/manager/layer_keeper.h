// The layers of all sessions: those in memory move to the disk when their box is gone, those that
// an ended session leaves behind are kept for a time, all together are bounded, and what no session
// needs is removed.
//
// It asks the registry which sessions there are. The loop's thread only; work on the disk is done
// on the pool.
#pragma once

#include "session/layers/layer_remover.h"
#include "session/layers/layer_sizes.h"
#include "session/manager/manager_common.h"
#include "session/manager/session_registry.h"
#include "session/state/spool_quota.h"
#include "session/store/kept_layers.h"
#include "session/store/layer_usage.h"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace glovebox::session {

class LayerKeeper {
 public:
  LayerKeeper(ManagerCommon& common, SessionRegistry& registry);

  // Holds the layers of sessions of a former service, and removes what it was making when it died,
  // or had begun to remove. Blocks.
  Result<void> open();

  // Called when the session is entered: what its box handed out belongs to its layers from here on.
  void take_memory(SessionEntry& entry, std::vector<HeldLayer>& layers) const;
  // When its box is gone, what lay in memory moves to the disk: from then on the session's layers
  // are there for the next service, too. What no disk can hold is left out, and the session's end
  // says so: else a box could keep memory for as long as its session is remembered. While the disk
  // is at fault it stays in memory, and the session counts as one that is alive
  // (SessionRegistry::check_room).
  asio::awaitable<void> settle_layers(EntryPointer entry);
  // Marks what the session has changed as kept. The caller has the turn of its layers. Counts
  // nothing, and marks nothing, in layers that are removed.
  asio::awaitable<Result<LeftBehind>> keep_layers(EntryPointer entry);
  // Removes what ended sessions left behind and is too old, or too much for one owner.
  asio::awaitable<void> expire_kept();

  // Opens a layer, with what lies in memory; for the pool.
  using OpenLayer = std::function<Result<workspace::Layer>()>;
  OpenLayer opener(const SessionEntry& entry, const std::string& layer) const;

  // By other sessions than `but`, or kept.
  bool is_used(const std::string& layer, const SessionEntry* but) const;
  // Their files go later. What others stand on stays: the last of them takes it along. What cannot
  // be removed is tried again by retry_removals().
  asio::awaitable<void> remove_layers(std::vector<std::string> ids);
  asio::awaitable<void> retry_removals();
  // Waits for removals that are under way, bounded: the rest is for the next service.
  asio::awaitable<void> drain() { return remover_->drain(common_.settings.end_timeout); }

  // A bound on all layers together cannot make a write fail: it is kept by looking. What a box
  // writes between two looks goes beyond it. A layer that is too deep or too wide to be looked at
  // counts as one that is too large.
  asio::awaitable<void> bound_layers();
  // Bytes in all layers, by their disk use. Walks them, on the pool, for usage() too.
  asio::awaitable<Result<std::uint64_t>> measure();
  // What is known of that without looking.
  const std::shared_ptr<LayerUsage>& usage() const { return usage_; }

  const std::shared_ptr<SpoolQuota>& spool_quota() const { return spool_quota_; }

 private:
  void hold_layers(SessionEntry& entry) const;
  Result<void> remove_unknown();
  asio::awaitable<void> settle_memory(EntryPointer entry);  // by who has the turn
  asio::awaitable<void> give_up(std::string layer, std::string why);
  // Gives up kept layers, the oldest first, until there is room. Returns what is left.
  asio::awaitable<std::uint64_t> make_room(const std::map<std::string, std::uint64_t>& bytes_of);
  void end_greediest(const LayerSizes& sizes, const std::map<std::string, std::uint64_t>& bytes_of,
                     std::uint64_t total);

  ManagerCommon& common_;
  SessionRegistry& registry_;
  std::shared_ptr<LayerUsage> usage_;
  std::shared_ptr<SpoolQuota> spool_quota_;
  std::unique_ptr<LayerRemover> remover_;
  KeptLayers kept_;                                       // although their session is forgotten
  std::vector<std::string> unremoved_;                    // could not be removed yet
  std::chrono::steady_clock::time_point next_measure_;    // of all layers
  std::map<std::string, std::uint64_t> sizes_with_room_;  // of layers, when there was room last
  std::map<std::string, LayerLook> last_looks_;           // at layers, when that was possible last
};

}  // namespace glovebox::session
