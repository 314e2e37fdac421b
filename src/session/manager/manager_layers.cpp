// What a session's boxes changed: diff, commit, undo.
#include "async/co_try.h"
#include "async/on_pool.h"
#include "base/file.h"
#include "session/manager/session_manager.h"
#include "workspace/diff/branches.h"
#include "workspace/diff/diff.h"
#include "workspace/layer/image.h"
#include "workspace/layer/persist_memory_layer.h"
#include "workspace/tree/tree_use.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

namespace glovebox::session {
namespace {

Result<void> write_body(DiffForm form, const std::vector<workspace::Change>& changes,
                        const workspace::Uppers& uppers, const workspace::Uppers& original,
                        const workspace::Sink& sink) {
  switch (form) {
    case DiffForm::Json: return sink(workspace::diff_to_json(changes) + "\n");
    case DiffForm::TarGz: return workspace::write_tar_gz(changes, uppers, {}, sink);
    case DiffForm::Unified: break;
  }
  return workspace::write_unified(changes, uppers, original, workspace::Reader::Program, sink);
}

// Where a body is written to, how large it may get, and what all of them may take.
struct Spooling {
  std::string directory;
  std::uint64_t most = 0;
  std::shared_ptr<SpoolQuota> room;
};

Result<DiffBody> spool_body(DiffForm form, const std::vector<workspace::Change>& changes,
                            const workspace::Uppers& after, const workspace::Uppers& before,
                            const Spooling& spool) {
  DiffBody body;
  body.changes = changes.size();
  body.share = SpoolShare(spool.room);
  TRY(body.file, open_file(spool.directory, O_RDWR | O_TMPFILE, 0600));
  const workspace::Sink sink = [&](std::string_view bytes) -> Result<void> {
    body.size += bytes.size();
    if (body.size > spool.most) {
      return fail(Code::Exhausted, "the diff is larger than {} bytes", spool.most);
    }
    TRY_VOID(body.share.take(bytes.size()));
    return write_all(body.file, bytes);
  };
  TRY_VOID(write_body(form, changes, after, before, sink));
  if (::lseek(body.file.get(), 0, SEEK_SET) != 0) return fail_os(errno, "go back in the diff");
  return body;
}

Result<DiffBody> make_diff(const workspace::Layer& layer, DiffForm form, const Spooling& spool) {
  TRY(const workspace::Uppers uppers, layer.open_uppers());
  TRY(const UniqueFd original, layer.open_original());
  TRY(const std::vector<workspace::Change> changes, workspace::diff(layer, uppers, original));
  return spool_body(form, changes, uppers, original, spool);
}

Result<DiffBody> make_branch_diff(const workspace::LayerRoot& root, const std::string& from,
                                  const std::string& to, DiffForm form, const Spooling& spool) {
  TRY(const workspace::Layer a, workspace::open_layer(root, from));
  TRY(const workspace::Layer b, workspace::open_layer(root, to));
  TRY(const std::vector<workspace::Change> changes, workspace::diff_branches(a, b));
  TRY(const workspace::Uppers before, workspace::open_branch(a));
  TRY(const workspace::Uppers after, workspace::open_branch(b));
  return spool_body(form, changes, after, before, spool);
}

// The kernel's own directory in a layer's: nobody else may look into it.
constexpr std::string_view kOfOverlay = "box/work/work";

// What a layer may grow while there is no room, without its session being ended for it.
constexpr std::uint64_t kUnnoticedGrowth = 1 << 20;

// By the layer's id, with those that are being made or removed, by what they are called meanwhile.
// What cannot be measured keeps nobody from measuring the others.
struct LayerSizes {
  std::map<std::string, workspace::TreeUse> layers;
  std::uint64_t on_disk = 0;  // all that is on their filesystem, by whoever
};
Result<LayerSizes> measure_layers(const workspace::LayerRoot& root, LayerUsage& known) {
  const LayerUsage::Mark mark = known.begin_measure();
  LayerSizes sizes;
  std::uint64_t bytes = 0;
  TRY(const UniqueFd all, workspace::open_directory(root.dir, "."));
  TRY(const auto names, workspace::list_directory(all));
  for (const workspace::Entry& entry : names) {
    const auto dir = workspace::open_directory(root.dir, entry.name);
    if (!dir) continue;  // removed meanwhile, or no layer
    const auto use = workspace::measure_tree(*dir, kOfOverlay);
    if (!use) continue;
    sizes.layers.emplace(entry.name, *use);
    bytes += use->bytes;
  }
  known.end_measure(mark, bytes);
  struct statvfs disk{};
  if (::fstatvfs(root.dir.get(), &disk) != 0) return fail_os(errno, "look at the disk of layers");
  sizes.on_disk = (disk.f_blocks - disk.f_bfree) * disk.f_frsize;
  return sizes;
}

// Into a directory that is shut nobody can look. What was in the layer before is in it still, and
// whatever came to the disk since may be.
std::map<std::string, std::uint64_t> count_bytes(const LayerSizes& sizes,
                                                 std::map<std::string, LayerLook>& last) {
  std::erase_if(last, [&](const auto& one) { return !sizes.layers.contains(one.first); });
  std::map<std::string, std::uint64_t> bytes_of;
  for (const auto& [id, use] : sizes.layers) {
    const LayerLook now{use.bytes, sizes.on_disk};
    if (!use.has_shut) last.insert_or_assign(id, now);
    const LayerLook& known = last.try_emplace(id, now).first->second;
    const std::uint64_t more = now.on_disk - std::min(now.on_disk, known.on_disk);
    bytes_of.emplace(id, std::max(use.bytes, known.bytes + more));
  }
  return bytes_of;
}

}  // namespace

Result<std::string> SessionManager::layer_of(const Entry& entry, const LayerChoice& where) const {
  for (const WorkspaceInfo& place : entry.record.info.workspaces) {
    if (!where.workspace.empty() && where.workspace != place.path) continue;
    if (!place.layer_id.empty()) return place.layer_id;
    if (where.workspace.empty()) continue;
    return fail(Code::Unsupported, "{}: it is {}, so there are no changes apart from it",
                place.path, to_text(place.mode));
  }
  if (!where.workspace.empty()) {
    return fail(Code::NotFound, "{} is no workspace of this session", where.workspace);
  }
  return fail(Code::Unsupported, "the session has no workspace with a layer");
}

// Called when the session is entered: what its box handed out belongs to its layers from here on.
void SessionManager::take_memory(Entry& entry, std::vector<HeldLayer>& layers) const {
  std::map<std::string, SharedFd> handed;
  const std::vector<std::string> places = plan::handed_layers(*entry.plan);
  for (std::size_t i = 0; i < places.size() && i < entry.live->layers().size(); ++i) {
    handed.emplace(places[i], entry.live->layers()[i]);
  }
  for (HeldLayer& held : layers) {
    if (held.layer().backing() != workspace::Backing::Tmpfs) continue;
    const auto found = handed.find(held.layer().facts().origin);
    if (found != handed.end()) {
      entry.memory.emplace(held.layer().facts().id, found->second);
    } else {
      // A workspace that the box may not write: nothing will ever be in its layer.
      (void)workspace::settle(held.layer(), std::nullopt);
    }
  }
}

SessionManager::OpenLayer SessionManager::opener(const Entry& entry,
                                                 const std::string& layer) const {
  const auto found = entry.memory.find(layer);
  const SharedFd memory = found != entry.memory.end() ? found->second : nullptr;
  return [preparer = preparer_, layer, memory]() -> Result<workspace::Layer> {
    TRY(workspace::Layer opened, workspace::open_layer(preparer->layers(), layer));
    if (memory) {
      TRY(UniqueFd upper, workspace::open_directory(*memory, "."));
      opened.use_memory(std::move(upper));
    }
    return opened;
  };
}

// When its box is gone, what lay in memory moves to the disk: from then on the session's layers are
// there for the next service, too. What no disk can hold is left out, and the session's end says
// so: else a box could keep memory for as long as its session is remembered. While the disk is at
// fault it stays in memory, and the session counts as one that is alive (check_room).
asio::awaitable<void> SessionManager::settle_layers(EntryPointer entry) {
  const std::weak_ptr<bool> there = is_there_;
  const auto turn = co_await entry->layer_turn->take(WhenBusy::Wait);
  if (!turn || there.expired()) co_return;
  co_await settle_memory(entry);
}

asio::awaitable<void> SessionManager::settle_memory(EntryPointer entry) {
  if (entry->memory.empty()) co_return;
  const std::weak_ptr<bool> there = is_there_;
  const auto work = [preparer = preparer_, memory = entry->memory] {
    std::map<std::string, workspace::Unsettled> settled;
    for (const auto& [id, upper] : memory) {
      auto layer = workspace::open_layer(preparer->layers(), id);
      if (!layer) continue;
      auto left_out = workspace::settle_what_fits(*layer, *upper);
      if (left_out) settled.emplace(id, *std::move(left_out));
    }
    return settled;
  };
  const auto settled = co_await on_pool(pool_, work);
  if (there.expired()) co_return;
  for (const auto& [id, left_out] : settled) {
    entry->memory.erase(id);
    auto& end = entry->record.info.end;
    if (left_out.names == 0 || !end) continue;
    end->sentence +=
        fmt::format("; {} names of its layer fit on no disk and are gone, the first: {}",
                    left_out.names, left_out.first);
    if (!entry->is_being_removed) store_->put_later(entry->record);
  }
}

asio::awaitable<Result<DiffBody>> SessionManager::diff(std::string id, LayerChoice where,
                                                       DiffForm form) {
  CO_TRY(const EntryPointer entry, find(id));
  CO_TRY(const std::string layer, layer_of(*entry, where));
  const auto work = [open = opener(*entry, layer), form,
                     spool = Spooling{spool_directory_, settings_.most_diff_bytes,
                                      spool_quota_}]() -> Result<DiffBody> {
    TRY(const workspace::Layer opened, open());
    return make_diff(opened, form, spool);
  };
  co_return co_await on_pool(pool_, work);
}

asio::awaitable<Result<DiffBody>> SessionManager::diff_between(std::string from, std::string to,
                                                               LayerChoice where, DiffForm form) {
  CO_TRY(const EntryPointer one, find(from));
  CO_TRY(const EntryPointer other, find(to));
  CO_TRY(std::string from_layer, layer_of(*one, where));
  CO_TRY(std::string to_layer, layer_of(*other, where));
  const auto work = [preparer = preparer_, from = std::move(from_layer), to = std::move(to_layer),
                     form,
                     spool = Spooling{spool_directory_, settings_.most_diff_bytes, spool_quota_}] {
    return make_branch_diff(preparer->layers(), from, to, form, spool);
  };
  co_return co_await on_pool(pool_, work);
}

// While a turn is waited for, the session may get a fresh box, lose the one it has, or be deleted.
// What the turns are of is therefore looked at again when both are there; then neither the box nor
// the layers change until the turns are given back.
asio::awaitable<Result<SessionManager::Turns>> SessionManager::take_turns(EntryPointer entry,
                                                                          WhenBusy when_busy) {
  for (;;) {
    CO_TRY_VOID(check_wanted(*entry));
    Turns turns;
    const std::shared_ptr<BoxSession> live = entry->live;
    if (live && live->is_alive() && !entry->is_cell) {
      auto shell = co_await live->take_shell(when_busy);
      if (!shell && shell.error().os_errno == ESHUTDOWN) continue;  // the box ended meanwhile
      if (!shell) co_return unexpected(std::move(shell).error());
      turns.push_back(*std::move(shell));
    }
    CO_TRY(auto layers, co_await entry->layer_turn->take(when_busy));
    CO_TRY_VOID(check_wanted(*entry));
    turns.push_back(std::move(layers));
    if (entry->live == live) co_return turns;
  }
}

asio::awaitable<Result<workspace::CommitResult>> SessionManager::commit(std::string id,
                                                                        CommitRequest request) {
  CO_TRY(const EntryPointer entry, find(id));
  CO_TRY_VOID(layer_of(*entry, request.where));  // what has none is refused without a wait
  CO_TRY(const Turns turns, co_await take_turns(entry, request.when_busy));
  CO_TRY(const std::string layer, layer_of(*entry, request.where));
  workspace::CommitOptions options;
  options.selection = std::move(request.selection);
  options.act = request.act;
  const auto work = [open = opener(*entry, layer),
                     options = std::move(options)]() -> Result<workspace::CommitResult> {
    TRY(workspace::Layer opened, open());
    TRY(const UniqueFd original, opened.open_original());
    return workspace::commit(opened, original, options);
  };
  auto result = co_await on_pool(pool_, work);
  if (result && result->number != 0) {
    tell(EventKind::Committed, *entry, fmt::format("{} changes", result->applied.size()));
  }
  co_return result;
}

asio::awaitable<Result<workspace::UndoResult>> SessionManager::undo(std::string id,
                                                                    LayerChoice where) {
  CO_TRY(const EntryPointer entry, find(id));
  CO_TRY_VOID(layer_of(*entry, where));
  CO_TRY(const auto turn, co_await entry->layer_turn->take(WhenBusy::Wait));
  CO_TRY_VOID(check_wanted(*entry));
  CO_TRY(const std::string layer, layer_of(*entry, where));
  const auto work = [open = opener(*entry, layer)]() -> Result<workspace::UndoResult> {
    TRY(workspace::Layer opened, open());
    TRY(const UniqueFd original, opened.open_original());
    return workspace::undo(opened, original);
  };
  auto result = co_await on_pool(pool_, work);
  if (result && result->conflicts.empty()) {
    tell(EventKind::Undone, *entry, fmt::format("{} paths", result->restored.size()));
  }
  co_return result;
}

asio::awaitable<Result<std::uint64_t>> SessionManager::layer_bytes() {
  const auto work = [preparer = preparer_, known = layer_usage_]() -> Result<void> {
    TRY_VOID(measure_layers(preparer->layers(), *known));
    return {};
  };
  CO_TRY_VOID(co_await on_pool(pool_, work));
  co_return layer_usage_->bytes();
}

// A bound on all layers together cannot make a write fail: it is kept by looking. What a box writes
// between two looks goes beyond it. A layer that is too deep or too wide to be looked at counts as
// one that is too large.
asio::awaitable<void> SessionManager::bound_layers() {
  using Clock = std::chrono::steady_clock;
  if (settings_.most_layer_bytes == 0 || Clock::now() < next_measure_) co_return;
  const std::weak_ptr<bool> there = is_there_;
  const auto work = [preparer = preparer_, known = layer_usage_] {
    return measure_layers(preparer->layers(), *known);
  };
  const auto begun = Clock::now();
  const auto sizes = co_await on_pool(pool_, work);
  if (!sizes || there.expired()) co_return;  // tried again by the next sweep
  constexpr int kShareOfTime = 20;
  next_measure_ = Clock::now() + (Clock::now() - begun) * kShareOfTime;
  const std::map<std::string, std::uint64_t> bytes_of = count_bytes(*sizes, last_looks_);
  std::uint64_t total = 0;
  for (const auto& [id, bytes] : bytes_of) total += bytes;
  // What was left behind goes before work that is going on, the oldest first.
  while (total > settings_.most_layer_bytes && !kept_layers_.oldest().empty()) {
    const std::string layer = kept_layers_.oldest();
    const auto bytes = bytes_of.find(layer);
    total -= bytes == bytes_of.end() ? 0 : std::min(total, bytes->second);
    co_await give_up(layer, "there is no room for it among all layers");
    if (there.expired()) co_return;
  }
  const bool is_full = total > settings_.most_layer_bytes;
  if (!is_full) sizes_with_room_.clear();
  for (const auto& [id, bytes] : bytes_of) sizes_with_room_.try_emplace(id, bytes);
  // Layers of sessions that have ended count, but those who live are not ended for them: only who
  // goes on writing is.
  EntryPointer greediest;
  std::uint64_t most = kUnnoticedGrowth;
  for (const auto& [id, entry] : sessions_) {
    if (!entry->live || !entry->live->is_alive()) continue;
    for (const WorkspaceInfo& place : entry->record.info.workspaces) {
      const auto size = sizes->layers.find(place.layer_id);
      if (size == sizes->layers.end()) continue;
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
