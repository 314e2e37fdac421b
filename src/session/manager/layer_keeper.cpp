#include "session/manager/layer_keeper.h"

#include "async/co_try.h"
#include "async/on_pool.h"
#include "workspace/commit/transaction.h"
#include "workspace/layer/journal.h"
#include "workspace/layer/persist_memory_layer.h"
#include "workspace/tree/tree_fs.h"

#include <algorithm>
#include <set>
#include <utility>

namespace glovebox::session {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kDraft = ".new-";
// What a layer may grow while there is no room, without its session being ended for it.
constexpr std::uint64_t kUnnoticedGrowth = 1 << 20;
// Of the time that passes, looking at all layers takes one part in so many.
constexpr int kShareOfTime = 20;

// A commit that a former service was in the middle of is carried through or taken back. What cannot
// be mended now, because the workspace is not there, is mended before the layer's next commit.
void finish_commits(const workspace::LayerRoot& root, const std::string& id) {
  auto layer = workspace::open_layer(root, id);
  if (!layer) return;
  const auto is_unfinished = workspace::has_unfinished_commit(*layer);
  if (!is_unfinished || !*is_unfinished) return;
  // One of a person's, who commits what a session left behind, is under way and no leftover.
  const auto lock = workspace::lock_commits(*layer);
  if (!lock) return;
  const auto original = layer->open_original();
  if (original) (void)workspace::recover(*layer, *original);
}

// A former version kept layers by its store alone.
Result<void> mark_formerly_kept(const workspace::LayerRoot& root, SessionRegistry& registry) {
  TRY(const std::vector<std::string> ids, registry.load_kept_layers());
  for (const std::string& id : ids) {
    const auto layer = workspace::open_layer(root, id);
    if (!layer) continue;
    const auto kept = workspace::read_kept(*layer);
    if (kept && !*kept) TRY_VOID(workspace::mark_kept(*layer, {.at = layer->facts().created}));
  }
  return {};
}

}  // namespace

LayerKeeper::LayerKeeper(ManagerCommon& common, SessionRegistry& registry)
    : common_(common),
      registry_(registry),
      usage_(std::make_shared<LayerUsage>(common.settings.most_layer_bytes)),
      spool_quota_(std::make_shared<SpoolQuota>(common.settings.most_spool_bytes)) {}

Result<void> LayerKeeper::open() {
  remover_ = std::make_unique<LayerRemover>(
      common_.loop,
      [preparer = common_.preparer](const std::string& id) {
        return workspace::remove_marked(preparer->layers(), id).has_value();
      },
      LayerRemover::Bounds{});
  for (const auto& [id, entry] : registry_.entries()) hold_layers(*entry);
  return remove_unknown();
}

void LayerKeeper::hold_layers(SessionEntry& entry) const {
  for (const WorkspaceInfo& place : entry.record.info.workspaces) {
    if (place.layer_id.empty()) continue;
    std::vector<std::string> chain = place.below;
    chain.push_back(place.layer_id);
    for (const std::string& id : chain) {
      const auto layer = workspace::open_layer(common_.preparer->layers(), id);
      if (!layer) continue;  // it was lost, and a request for it is told so
      auto hold = layer->hold();
      if (hold) entry.holds.push_back(*std::move(hold));
    }
  }
}

Result<void> LayerKeeper::remove_unknown() {
  const workspace::LayerRoot& root = common_.preparer->layers();
  std::set<std::string, std::less<>> known;
  for (const auto& [id, entry] : registry_.entries()) {
    for (const WorkspaceInfo& place : entry->record.info.workspaces) {
      known.insert(place.layer_id);
      known.insert(place.below.begin(), place.below.end());
    }
  }
  TRY_VOID(mark_formerly_kept(root, registry_));
  TRY_VOID(kept_.load(root));
  TRY(const UniqueFd dir, workspace::open_directory(root.dir, "."));
  TRY(const auto names, workspace::list_directory(dir));
  for (const workspace::Entry& name : names) {
    // No other process makes layers here, so a draft is a leftover.
    if (name.name.starts_with(kDraft)) TRY_VOID(workspace::remove_tree(root.dir, name.name));
  }
  TRY(const auto layers, workspace::list_layers(root));
  for (const workspace::LayerFacts& layer : layers) {
    finish_commits(root, layer.id);
    if (known.contains(layer.id) || kept_.uses(layer.id)) continue;
    const auto removed = workspace::remove_layer(root, layer.id);
    if (!removed) unremoved_.push_back(layer.id);
  }
  // The rest of removals that were interrupted; nothing else is too old or too many.
  const workspace::Retention all{std::chrono::hours(24 * 36500), static_cast<std::size_t>(-1)};
  TRY_VOID(workspace::collect_layers(root, all));
  return {};
}

void LayerKeeper::take_memory(SessionEntry& entry, std::vector<HeldLayer>& layers) const {
  std::map<std::string, SharedFd> handed;
  const std::vector<std::string> places = plan::handed_layers(*entry.plan);
  for (std::size_t i = 0; i < places.size() && i < entry.live->layers().size(); ++i) {
    handed.emplace(places[i], entry.live->layers()[i]);
  }
  for (HeldLayer& held : layers) {
    if (held.layer().backing() != plan::LayerBacking::Memory) continue;
    const auto found = handed.find(held.inside());
    if (found != handed.end()) {
      entry.memory.emplace(held.layer().facts().id, found->second);
    } else {
      // A workspace that the box may not write: nothing will ever be in its layer.
      (void)workspace::settle(held.layer(), std::nullopt);
    }
  }
}

LayerKeeper::OpenLayer LayerKeeper::opener(const SessionEntry& entry,
                                           const std::string& layer) const {
  const auto found = entry.memory.find(layer);
  const SharedFd memory = found != entry.memory.end() ? found->second : nullptr;
  return [preparer = common_.preparer, layer, memory]() -> Result<workspace::Layer> {
    TRY(workspace::Layer opened, workspace::open_layer(preparer->layers(), layer));
    if (memory) {
      TRY(UniqueFd upper, workspace::open_directory(*memory, "."));
      opened.use_memory(std::move(upper));
    }
    return opened;
  };
}

asio::awaitable<void> LayerKeeper::settle_layers(EntryPointer entry) {
  const auto turn = co_await entry->layer_turn->take(WhenBusy::Wait);
  if (turn) co_await settle_memory(entry);
}

asio::awaitable<void> LayerKeeper::settle_memory(EntryPointer entry) {
  if (entry->memory.empty()) co_return;
  const auto work = [preparer = common_.preparer, memory = entry->memory] {
    std::map<std::string, workspace::Unsettled> settled;
    for (const auto& [id, upper] : memory) {
      auto layer = workspace::open_layer(preparer->layers(), id);
      if (!layer) continue;
      auto left_out = workspace::settle_what_fits(*layer, *upper);
      if (left_out) settled.emplace(id, *std::move(left_out));
    }
    return settled;
  };
  const auto settled = co_await on_pool(common_.pool, work);
  for (const auto& [id, left_out] : settled) {
    entry->memory.erase(id);
    auto& end = entry->record.info.end;
    if (left_out.names == 0 || !end) continue;
    end->sentence +=
        fmt::format("; {} names of its layer fit on no disk and are gone, the first: {}",
                    left_out.names, left_out.first);
    if (!entry->is_being_removed) registry_.put_later(*entry);
  }
}

asio::awaitable<Result<LeftBehind>> LayerKeeper::keep_layers(EntryPointer entry) {
  co_await settle_memory(entry);
  if (!entry->memory.empty()) {
    co_return fail(Code::Os,
                   "what the session changed lies in memory and cannot be written to the disk; the "
                   "session is still there, dead");
  }
  OpenLayers layers;
  for (const WorkspaceInfo& place : entry->record.info.workspaces) {
    if (!place.layer_id.empty()) layers.push_back(opener(*entry, place.layer_id));
  }
  const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  const workspace::Kept mark{.session = entry->record.info.id,
                             .owner = owner_of(entry->record.info.effective),
                             .at = kept_.time_of_next(now.count())};
  const auto work = [layers = std::move(layers), mark] { return keep_changed(layers, mark); };
  auto kept = co_await on_pool(common_.pool, work);
  if (!kept) co_return kept;
  for (const KeptLayer& one : *kept) kept_.add(one.layer, mark.at);
  co_return kept;
}

asio::awaitable<void> LayerKeeper::expire_kept() {
  const auto work = [preparer = common_.preparer] {
    return workspace::expired_kept(preparer->layers(), kKeptRetention);
  };
  const auto expired = co_await on_pool(common_.pool, work);
  if (!expired) co_return;  // looked at again when the next session leaves something behind
  for (const std::string& layer : *expired) {
    co_await give_up(layer, "it is too old, or one too many of its owner's");
  }
}

asio::awaitable<void> LayerKeeper::give_up(std::string layer, std::string why) {
  std::vector<std::string> ids = kept_.take(layer);
  if (ids.empty()) co_return;
  SessionEvent event;
  event.kind = EventKind::LayerGivenUp;
  event.detail = fmt::format("layer {}: {}", layer, why);
  registry_.events().tell(std::move(event));
  co_await remove_layers(std::move(ids));
}

bool LayerKeeper::is_used(const std::string& layer, const SessionEntry* but) const {
  return kept_.uses(layer) || registry_.uses_layer(layer, but);
}

asio::awaitable<void> LayerKeeper::remove_layers(std::vector<std::string> ids) {
  std::erase_if(ids, [this](const std::string& id) { return is_used(id, nullptr); });
  if (ids.empty()) co_return;
  struct Outcome {
    std::vector<std::string> marked;
    std::vector<std::string> left;
  };
  const auto work = [preparer = common_.preparer, ids = std::move(ids)] {
    Outcome outcome;
    for (const std::string& id : ids) {
      const auto marked = workspace::mark_removed(preparer->layers(), id);
      if (marked) {
        outcome.marked.push_back(id);
      } else if (marked.error().code != Code::NotFound) {
        outcome.left.push_back(id);
      }
    }
    return outcome;
  };
  Outcome outcome = co_await on_pool(common_.pool, work);
  unremoved_.insert(unremoved_.end(), outcome.left.begin(), outcome.left.end());
  co_await remover_->take(std::move(outcome.marked));
}

asio::awaitable<void> LayerKeeper::retry_removals() {
  std::vector<std::string> again = std::exchange(unremoved_, {});
  for (std::string& id : remover_->take_left()) again.push_back(std::move(id));
  co_await remove_layers(std::move(again));
}

asio::awaitable<Result<std::uint64_t>> LayerKeeper::measure() {
  const auto work = [preparer = common_.preparer, known = usage_]() -> Result<void> {
    TRY_VOID(measure_layers(preparer->layers(), *known));
    return {};
  };
  CO_TRY_VOID(co_await on_pool(common_.pool, work));
  co_return usage_->bytes();
}

asio::awaitable<void> LayerKeeper::bound_layers() {
  const std::uint64_t most = common_.settings.most_layer_bytes;
  if (most == 0 || Clock::now() < next_measure_) co_return;
  const auto work = [preparer = common_.preparer, known = usage_] {
    return measure_layers(preparer->layers(), *known);
  };
  const auto begun = Clock::now();
  const auto sizes = co_await on_pool(common_.pool, work);
  if (!sizes) co_return;  // tried again by the next sweep
  next_measure_ = Clock::now() + (Clock::now() - begun) * kShareOfTime;
  const std::map<std::string, std::uint64_t> bytes_of = count_bytes(*sizes, last_looks_);
  const std::uint64_t total = co_await make_room(bytes_of);
  if (total <= most) sizes_with_room_.clear();
  for (const auto& [id, bytes] : bytes_of) sizes_with_room_.try_emplace(id, bytes);
  end_greediest(*sizes, bytes_of, total);
}

// What was left behind goes before work that is going on.
asio::awaitable<std::uint64_t> LayerKeeper::make_room(
    const std::map<std::string, std::uint64_t>& bytes_of) {
  std::uint64_t total = 0;
  for (const auto& [id, bytes] : bytes_of) total += bytes;
  while (total > common_.settings.most_layer_bytes && !kept_.oldest().empty()) {
    const std::string layer = kept_.oldest();
    const auto bytes = bytes_of.find(layer);
    total -= bytes == bytes_of.end() ? 0 : std::min(total, bytes->second);
    co_await give_up(layer, "there is no room for it among all layers");
  }
  co_return total;
}

// Layers of sessions that have ended count, but those that live are not ended for them: only one
// that goes on writing is.
void LayerKeeper::end_greediest(const LayerSizes& sizes,
                                const std::map<std::string, std::uint64_t>& bytes_of,
                                std::uint64_t total) {
  const bool is_full = total > common_.settings.most_layer_bytes;
  EntryPointer greediest;
  std::uint64_t most = kUnnoticedGrowth;
  for (const auto& [id, entry] : registry_.entries()) {
    if (!entry->live || !entry->live->is_alive()) continue;
    for (const WorkspaceInfo& place : entry->record.info.workspaces) {
      const auto size = sizes.layers.find(place.layer_id);
      if (size == sizes.layers.end()) continue;
      if (size->second.is_boundless) {
        entry->live->end_by(launch::LimitKind::Disk);
        break;
      }
      const std::uint64_t before = sizes_with_room_.at(place.layer_id);
      const std::uint64_t bytes = bytes_of.at(place.layer_id);
      if (!is_full || bytes <= before || bytes - before <= most) continue;
      most = bytes - before;
      greediest = entry;
    }
  }
  if (greediest && greediest->live->is_alive()) {
    greediest->live->end_by(launch::LimitKind::Disk);
  }
}

}  // namespace glovebox::session
