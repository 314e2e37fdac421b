#include "session/manager/session_registry.h"

#include "request/box_request.h"

#include <algorithm>
#include <tuple>

namespace glovebox::session {
namespace {

bool has_labels(const SessionInfo& info, const std::map<std::string, std::string>& labels) {
  return std::ranges::all_of(labels, [&](const auto& label) {
    const auto found = info.effective.labels.find(label.first);
    return found != info.effective.labels.end() && found->second == label.second;
  });
}

}  // namespace

Result<void> SessionRegistry::open() {
  TRY(store_, Store::open(common_.settings.state_directory + "/sessions.db"));
  TRY(std::vector<StoredSession> stored, store_->load());
  for (StoredSession& one : stored) {
    const EntryPointer entry = adopt(std::move(one));
    last_creation_ = std::max(last_creation_, entry->record.info.created_at);
    add(entry);
  }
  return {};
}

// A session of a former service: whatever it was, its box is gone.
EntryPointer SessionRegistry::adopt(StoredSession stored) {
  auto entry = std::make_shared<SessionEntry>();
  entry->record = std::move(stored.record);
  entry->runs.assign(stored.runs.begin(), stored.runs.end());
  entry->layer_turn = std::make_shared<Semaphore>(common_.loop, 1, "the layer");
  SessionInfo& info = entry->record.info;
  if (info.state == SessionState::Dead) return entry;
  info.state = SessionState::Dead;
  info.end = SessionEnd{EndCause::ServiceEnded,
                        {},
                        "the service ended while the box was running",
                        std::chrono::system_clock::now()};
  put_later(*entry);
  return entry;
}

Result<EntryPointer> SessionRegistry::find(std::string_view id) const {
  EntryPointer found = find_or_null(id);
  if (!found) return fail(Code::NotFound, "there is no session {}", id);
  return found;
}

EntryPointer SessionRegistry::find_or_null(std::string_view id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second;
}

std::vector<SessionInfo> SessionRegistry::list(
    const std::map<std::string, std::string>& labels) const {
  std::vector<SessionInfo> found;
  for (const auto& [id, entry] : entries_) {
    if (!entry->is_being_removed && has_labels(entry->record.info, labels)) {
      found.push_back(info_of(*entry));
    }
  }
  std::ranges::sort(found, [](const SessionInfo& a, const SessionInfo& b) {
    return std::tie(a.created_at, a.id) < std::tie(b.created_at, b.id);
  });
  return found;
}

SessionCounts SessionRegistry::counts() const {
  SessionCounts counts;
  for (const auto& [id, entry] : entries_) {
    ++(entry->record.info.state == SessionState::Active ? counts.alive : counts.dead);
  }
  counts.starting = *starting_;
  return counts;
}

bool SessionRegistry::uses_layer(const std::string& layer, const SessionEntry* but) const {
  return std::ranges::any_of(entries_, [&](const auto& one) {
    if (one.second.get() == but) return false;
    return std::ranges::any_of(one.second->record.info.workspaces, [&](const WorkspaceInfo& place) {
      return place.layer_id == layer || std::ranges::find(place.below, layer) != place.below.end();
    });
  });
}

Result<void> SessionRegistry::check_room(std::size_t more) const {
  // A dead one whose layer could not leave memory holds as much as one that is alive.
  const auto pinned = static_cast<std::size_t>(std::ranges::count_if(entries_, [](const auto& one) {
    return one.second->record.info.state == SessionState::Dead && !one.second->memory.empty();
  }));
  const std::size_t most = common_.settings.max_sessions;
  if (counts().alive + pinned + *starting_ + more <= most) return {};
  return fail(Code::Exhausted, "{} sessions at a time", most);
}

Result<void> SessionRegistry::check_wanted(const SessionEntry& entry) const {
  if (common_.is_stopping) return fail(Code::Os, "the service is ending");
  if (!entry.is_being_removed) return {};
  return fail(Code::NotFound, "there is no session {}", entry.record.info.id);
}

EntryPointer SessionRegistry::make_entry(std::string id) {
  constexpr std::chrono::microseconds kStep{1};
  last_creation_ = std::max(std::chrono::system_clock::now(), last_creation_ + kStep);
  auto entry = std::make_shared<SessionEntry>();
  entry->layer_turn = std::make_shared<Semaphore>(common_.loop, 1, "the layer");
  SessionInfo& info = entry->record.info;
  info.id = std::move(id);
  info.created_at = last_creation_;
  info.last_run_at = last_creation_;
  return entry;
}

void SessionRegistry::add(const EntryPointer& entry) {
  entries_.emplace(entry->record.info.id, entry);
}

Result<void> SessionRegistry::change(SessionEntry& entry, const SessionChange& change) {
  TRY_VOID(check_settled(entry));
  BoxRequest asked = entry.record.info.effective;
  if (change.labels) asked.labels = *change.labels;
  if (change.name) asked.name = *change.name;
  if (change.idle_timeout) asked.idle_timeout = *change.idle_timeout;
  TRY_VOID(check_values(asked));
  entry.record.info.effective = std::move(asked);
  if (change.idle_timeout) entry.record.info.idle_timeout = *change.idle_timeout;
  put_later(entry);
  return {};
}

void SessionRegistry::note_run(const std::string& id, const RunRecord& run) {
  const EntryPointer entry = find_or_null(id);
  if (!entry) return;
  SessionInfo& info = entry->record.info;
  SessionEvent event;
  event.kind = run.ended_at ? EventKind::RunEnded : EventKind::RunStarted;
  event.session = id;
  event.run = run;
  if (info.policy) event.policy_digest = info.policy->digest;
  if (run.ended_at) {
    info.runs = entry->live->run_count();
    info.last_run_at = *run.ended_at;
    entry->runs.push_back(run);
    if (entry->runs.size() > Store::kRemembered) entry->runs.pop_front();
    store_->note_run({id, run, info.runs});
    unwritten_runs_.emplace_back(id, run);
  }
  events_.tell(std::move(event));
}

void SessionRegistry::write_runs() {
  if (unwritten_runs_.empty()) return;
  const Store::Batch batch(*store_);
  for (const auto& [id, run] : std::exchange(unwritten_runs_, {})) {
    const EntryPointer entry = find_or_null(id);
    if (!entry || entry->is_being_removed) continue;
    store_->put_run_later(id, run, entry->record.info.runs);
  }
}

void SessionRegistry::tell(EventKind kind, const SessionEntry& entry, std::string detail,
                           DenialWords denial) {
  SessionEvent event;
  event.kind = kind;
  event.session = entry.record.info.id;
  if (entry.record.info.policy) event.policy_digest = entry.record.info.policy->digest;
  event.end = entry.record.info.end;
  event.detail = std::move(detail);
  event.denial = std::move(denial);
  events_.tell(std::move(event));
}

}  // namespace glovebox::session
