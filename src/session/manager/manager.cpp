// Opening a Manager, and what can be asked of it without waiting.
#include "base/file.h"
#include "session/manager/session_manager.h"
#include "workspace/commit/transaction.h"
#include "workspace/layer/image.h"
#include "workspace/layer/journal.h"
#include "workspace/tree/private_files.h"
#include "workspace/tree/tree_fs.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>

namespace glovebox::session {
namespace {

constexpr std::string_view kDraft = ".new-";
constexpr std::chrono::seconds kLockPatience{5};
constexpr std::chrono::milliseconds kLockLook{10};

bool has_labels(const SessionInfo& info, const std::map<std::string, std::string>& labels) {
  return std::ranges::all_of(labels, [&](const auto& label) {
    const auto found = info.effective.labels.find(label.first);
    return found != info.effective.labels.end() && found->second == label.second;
  });
}

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
Result<void> mark_formerly_kept(const workspace::LayerRoot& root, Store& store) {
  TRY(const std::vector<std::string> ids, store.load_kept_layers());
  for (const std::string& id : ids) {
    const auto layer = workspace::open_layer(root, id);
    if (!layer) continue;
    const auto kept = workspace::read_kept(*layer);
    if (kept && !*kept) TRY_VOID(workspace::mark_kept(*layer, {.at = layer->facts().created}));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Manager>> Manager::open(asio::io_context& loop, ManagerSettings settings) {
  auto manager = std::make_unique<SessionManager>(loop, std::move(settings));
  TRY_VOID(manager->open());
  return manager;
}

SessionManager::SessionManager(asio::io_context& loop, ManagerSettings settings)
    : loop_(loop),
      settings_(std::move(settings)),
      layer_usage_(std::make_shared<LayerUsage>(settings_.most_layer_bytes)),
      spool_quota_(std::make_shared<SpoolQuota>(settings_.most_spool_bytes)),
      events_(loop),
      pool_(settings_.pool_threads),
      networks_(loop, settings_.name_servers),
      launcher_(
          loop, settings_.launcher, settings_.keep_parked,
          {[this](std::uint64_t box, const launch::RemoteEnd& end) { on_box_ended(box, end); },
           [this](const std::vector<std::uint64_t>& boxes) { on_launcher_gone(boxes); }}),
      sweep_timer_(loop) {}

SessionManager::~SessionManager() {
  is_there_.reset();
  sweep_timer_.cancel();
  events_.close();
  pool_.join();
  restore_pool_.join();
  message_pool_.join();
  if (store_) write_runs();
}

Result<void> SessionManager::open() {
  // A run that stops reading its input, or a launcher that is gone, is an error, not a signal.
  (void)std::signal(SIGPIPE, SIG_IGN);
  TRY_VOID(lock_state());
  const std::string& state = settings_.state_directory;
  spool_directory_ = state + "/spool";
  TRY_VOID(workspace::open_private_directory(spool_directory_));
  PreparerSettings preparing;
  preparing.layer_root = state + "/layers";
  preparing.hidden = settings_.hidden;
  preparing.hidden.push_back(state);
  preparing.hidden_later = settings_.hidden_later;
  preparing.secrets = settings_.secrets_directory;
  preparing.policies = settings_.policies;
  preparing.default_idle = settings_.default_idle;
  preparing.interpreter_roots = settings_.interpreter_roots;
  preparing.probe = std::filesystem::path(settings_.launcher).parent_path() / "glovebox-probe";
  TRY(preparing.python_extension, write_python_extension(state + "/python"));
  TRY(preparer_, Preparer::open(std::move(preparing)));
  remover_ = std::make_unique<LayerRemover>(
      loop_,
      [preparer = preparer_](const std::string& id) {
        return workspace::remove_marked(preparer->layers(), id).has_value();
      },
      LayerRemover::Bounds{});
  TRY(store_, Store::open(state + "/sessions.db"));
  TRY_VOID(recover());
  if (!settings_.name_servers.empty()) TRY_VOID(networks_.open());
  TRY_VOID(launcher_.start());
  asio::co_spawn(loop_, keep_sweeping(is_there_), asio::detached);
  return {};
}

// Two services on one directory would each take the other's sessions for leftovers.
Result<void> SessionManager::lock_state() {
  TRY(const UniqueFd dir, workspace::open_private_directory(settings_.state_directory));
  TRY(lock_, open_file_at(dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  // A service that was killed a moment ago may have left a child that has not become the launcher
  // yet, and has the lock until then.
  const auto give_up = std::chrono::steady_clock::now() + kLockPatience;
  while (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() > give_up) {
      return fail(Code::Denied, "{}: another service uses this directory",
                  settings_.state_directory);
    }
    std::this_thread::sleep_for(kLockLook);
  }
  return {};
}

Result<void> SessionManager::recover() {
  TRY(std::vector<StoredSession> stored, store_->load());
  for (StoredSession& one : stored) {
    const EntryPointer entry = adopt(std::move(one));
    last_creation_ = std::max(last_creation_, entry->record.info.created_at);
    sessions_.emplace(entry->record.info.id, entry);
  }
  return remove_unknown_layers();
}

// A session of a former service: whatever it was, its box is gone.
SessionManager::EntryPointer SessionManager::adopt(StoredSession stored) {
  auto entry = std::make_shared<Entry>();
  entry->record = std::move(stored.record);
  entry->runs.assign(stored.runs.begin(), stored.runs.end());
  entry->layer_turn = std::make_shared<Semaphore>(loop_, 1, "the layer");
  SessionInfo& info = entry->record.info;
  for (const WorkspaceInfo& place : info.workspaces) {
    if (place.layer_id.empty()) continue;
    std::vector<std::string> chain = place.below;
    chain.push_back(place.layer_id);
    for (const std::string& id : chain) {
      const auto layer = workspace::open_layer(preparer_->layers(), id);
      if (!layer) continue;  // it was lost, and whoever asks for it is told so
      auto hold = layer->hold();
      if (hold) entry->holds.push_back(*std::move(hold));
    }
  }
  if (info.state == SessionState::Dead) return entry;
  info.state = SessionState::Dead;
  info.end = SessionEnd{EndCause::ServiceEnded,
                        {},
                        "the service ended while the box was running",
                        std::chrono::system_clock::now()};
  store_->put_later(entry->record);
  return entry;
}

// What a former service was making when it died, or had begun to remove.
Result<void> SessionManager::remove_unknown_layers() {
  const workspace::LayerRoot& root = preparer_->layers();
  std::set<std::string, std::less<>> known;
  for (const auto& [id, entry] : sessions_) {
    for (const WorkspaceInfo& place : entry->record.info.workspaces) {
      known.insert(place.layer_id);
      known.insert(place.below.begin(), place.below.end());
    }
  }
  TRY_VOID(mark_formerly_kept(root, *store_));
  TRY_VOID(kept_layers_.load(root));
  TRY(const UniqueFd dir, workspace::open_directory(root.dir, "."));
  TRY(const auto names, workspace::list_directory(dir));
  for (const workspace::Entry& name : names) {
    // Nobody else makes layers here, so a draft is nobody's.
    if (name.name.starts_with(kDraft)) TRY_VOID(workspace::remove_tree(root.dir, name.name));
  }
  TRY(const auto layers, workspace::list_layers(root));
  for (const workspace::LayerFacts& layer : layers) {
    finish_commits(root, layer.id);
    if (known.contains(layer.id) || kept_layers_.uses(layer.id)) continue;
    const auto removed = workspace::remove_layer(root, layer.id);
    if (!removed) unremoved_.push_back(layer.id);
  }
  // The rest of removals that were interrupted; nothing else is too old or too many.
  const workspace::Retention all{std::chrono::hours(24 * 36500), static_cast<std::size_t>(-1)};
  TRY_VOID(workspace::collect_layers(root, all));
  return {};
}

Result<SessionManager::EntryPointer> SessionManager::find(std::string_view id) const {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return fail(Code::NotFound, "there is no session {}", id);
  return found->second;
}

Result<void> SessionManager::check_settled(const Entry& entry) {
  if (!entry.is_being_renewed) return {};
  return fail(Code::Exhausted, "the session is getting a fresh box; try again");
}

Result<void> SessionManager::check_wanted(const Entry& entry) const {
  if (is_stopping_) return fail(Code::Os, "the service is ending");
  if (!entry.is_being_removed) return {};
  return fail(Code::NotFound, "there is no session {}", entry.record.info.id);
}

SessionInfo SessionManager::info_of(const Entry& entry) const {
  SessionInfo info = entry.record.info;
  if (info.idle_timeout.count() == 0) return info;
  info.idle_remaining = std::chrono::milliseconds(0);
  if (!entry.live || !entry.live->is_alive()) return info;
  const auto now = std::chrono::steady_clock::now();
  const auto since = is_in_use(entry) ? now : last_use(entry);
  const auto used = std::chrono::duration_cast<std::chrono::milliseconds>(now - since);
  info.idle_remaining = std::max(info.idle_timeout - used, std::chrono::milliseconds(0));
  return info;
}

std::vector<SessionInfo> SessionManager::list(
    const std::map<std::string, std::string>& labels) const {
  std::vector<SessionInfo> found;
  for (const auto& [id, entry] : sessions_) {
    if (!entry->is_being_removed && has_labels(entry->record.info, labels)) {
      found.push_back(info_of(*entry));
    }
  }
  std::ranges::sort(found, [](const SessionInfo& a, const SessionInfo& b) {
    return std::tie(a.created_at, a.id) < std::tie(b.created_at, b.id);
  });
  return found;
}

Result<SessionInfo> SessionManager::get(std::string_view id) const {
  TRY(const EntryPointer entry, find(id));
  return info_of(*entry);
}

Result<std::shared_ptr<LiveSession>> SessionManager::attach(std::string_view id) {
  TRY(const EntryPointer entry, find(id));
  if (!entry->live) {
    const auto& end = entry->record.info.end;
    return fail(Code::Os, "session terminated: {}", end ? end->sentence : "its box is gone");
  }
  if (entry->is_cell) {
    return fail(Code::Unsupported, "a cell has no shell and no files of its own: use /python");
  }
  return entry->live;
}

Result<SessionInfo> SessionManager::change(std::string_view id, const Change& change) {
  TRY(const EntryPointer entry, find(id));
  TRY_VOID(check_settled(*entry));
  BoxRequest asked = entry->record.info.effective;
  if (change.labels) asked.labels = *change.labels;
  if (change.name) asked.name = *change.name;
  if (change.idle_timeout) asked.idle_timeout = *change.idle_timeout;
  TRY_VOID(check_values(asked));
  entry->record.info.effective = std::move(asked);
  if (change.idle_timeout) entry->record.info.idle_timeout = *change.idle_timeout;
  store_->put_later(entry->record);
  return info_of(*entry);
}

// What the kernel has counted so far, and what lies in layers that have a budget.
void SessionManager::add_live_usage(const Entry& entry, SessionUsage& usage) {
  if (entry.plan && !entry.live->cgroup().empty()) {
    const auto counts = launch::read_usage(entry.plan->cgroup, entry.live->cgroup());
    usage.cpu_ns = counts.cpu_ns;
    usage.memory_bytes = counts.memory_bytes;
    usage.peak_memory_bytes = counts.peak_memory_bytes;
  }
  // Layers in memory share one filesystem, and of those in images there is one.
  if (entry.live->layers().empty()) return;
  const auto room = workspace::read_room(*entry.live->layers().front());
  if (room) usage.disk_free_bytes = room->free_bytes;
}

Result<SessionReport> SessionManager::report(std::string_view id) const {
  TRY(const EntryPointer entry, find(id));
  SessionReport report;
  report.info = info_of(*entry);
  report.guarantees = entry->record.guarantees;
  report.proved = entry->record.proved;
  report.terms = entry->record.terms;
  report.waived.assign(report.info.effective.waived.begin(), report.info.effective.waived.end());
  if (entry->plan) report.plan_text = plan::to_text(*entry->plan);
  report.usage = entry->record.usage;
  report.usage.runs = report.info.runs;
  if (entry->live) {
    report.usage.output_bytes = entry->live->output_bytes();
    report.usage.cpu_ns = entry->live->usage().cpu_ns;
    report.usage.peak_memory_bytes = entry->live->usage().peak_memory_bytes;
    if (entry->live->is_alive()) add_live_usage(*entry, report.usage);
  }
  report.recent_runs.assign(entry->runs.begin(), entry->runs.end());
  return report;
}

SessionManager::Counts SessionManager::counts() const {
  Counts counts;
  for (const auto& [id, entry] : sessions_) {
    ++(entry->record.info.state == SessionState::Active ? counts.alive : counts.dead);
  }
  counts.starting = *starting_;
  counts.launcher_restarts = launcher_.restarts();
  counts.parked = launcher_.pool_stats();
  return counts;
}

void SessionManager::observe(std::function<void(const SessionEvent&)> observer) {
  events_.observe(std::move(observer));
}

std::unique_ptr<EventFeed> SessionManager::watch() { return events_.watch(); }

}  // namespace glovebox::session
