#include "session/manager/session_manager.h"

#include "async/co_try.h"
#include "async/on_pool.h"
#include "session/manager/operations.h"

#include <utility>

namespace glovebox::session {

Result<std::unique_ptr<SessionManager>> SessionManager::open(asio::io_context& loop,
                                                             ManagerSettings settings) {
  auto parts = std::make_unique<ManagerParts>(loop, std::move(settings));
  TRY_VOID(parts->open());
  return std::unique_ptr<SessionManager>(new SessionManager(std::move(parts)));
}

SessionManager::SessionManager(std::unique_ptr<ManagerParts> parts) : parts_(std::move(parts)) {}

SessionManager::~SessionManager() = default;

asio::awaitable<Result<SessionInfo>> SessionManager::create(BoxRequest request) {
  SessionOrigin origin;
  co_return co_await create_session(*parts_, std::move(request), std::move(origin));
}

asio::awaitable<RequestFault> SessionManager::find_fault(BoxRequest request) {
  const auto work = [preparer = parts_->common.preparer, request = std::move(request)] {
    return preparer->find_fault(request);
  };
  co_return co_await on_pool(parts_->common.pool, work);
}

asio::awaitable<Result<void>> SessionManager::check(BoxRequest request) {
  const auto work = [preparer = parts_->common.preparer,
                     request = std::move(request)]() -> Result<void> {
    TRY_VOID(preparer->explain(request));
    return {};
  };
  co_return co_await on_pool(parts_->common.pool, work);
}

std::vector<SessionInfo> SessionManager::list(
    const std::map<std::string, std::string>& labels) const {
  return parts_->registry.list(labels);
}

Result<SessionInfo> SessionManager::get(std::string_view id) const {
  TRY(const EntryPointer entry, parts_->registry.find(id));
  return info_of(*entry);
}

Result<std::shared_ptr<LiveSession>> SessionManager::attach(std::string_view id) {
  TRY(const EntryPointer entry, parts_->registry.find(id));
  if (!entry->live) {
    const auto& end = entry->record.info.end;
    return fail(Code::Os, "session terminated: {}", end ? end->sentence : "its box is gone");
  }
  if (entry->is_cell) {
    return fail(Code::Unsupported, "a cell has no shell and no files of its own: use /python");
  }
  return entry->live;
}

Result<std::shared_ptr<PythonHost>> SessionManager::python(std::string_view id) {
  TRY(const EntryPointer entry, parts_->registry.find(id));
  if (!entry->python) return fail(Code::NotFound, "session {} is no Python session", id);
  return entry->python;
}

Result<SessionInfo> SessionManager::change(std::string_view id, const SessionChange& change) {
  TRY(const EntryPointer entry, parts_->registry.find(id));
  TRY_VOID(parts_->registry.change(*entry, change));
  return info_of(*entry);
}

asio::awaitable<Result<LeftBehind>> SessionManager::remove(std::string id, LayerFate fate) {
  CO_TRY(EntryPointer entry, parts_->registry.find(id));
  co_return co_await remove_session(*parts_, std::move(entry), fate, EndCause::Deleted,
                                    "the session was deleted");
}

asio::awaitable<Result<SessionInfo>> SessionManager::end(std::string id) {
  CO_TRY(EntryPointer entry, parts_->registry.find(id));
  co_return co_await end_session(*parts_, std::move(entry));
}

asio::awaitable<Result<DiffBody>> SessionManager::diff(std::string id, LayerChoice where,
                                                       DiffForm form) {
  CO_TRY(EntryPointer entry, parts_->registry.find(id));
  co_return co_await diff_session(*parts_, std::move(entry), std::move(where), form);
}

asio::awaitable<Result<workspace::CommitResult>> SessionManager::commit(std::string id,
                                                                        CommitRequest request) {
  CO_TRY(EntryPointer entry, parts_->registry.find(id));
  co_return co_await commit_session(*parts_, std::move(entry), std::move(request));
}

asio::awaitable<Result<workspace::UndoResult>> SessionManager::undo(std::string id,
                                                                    LayerChoice where) {
  CO_TRY(EntryPointer entry, parts_->registry.find(id));
  co_return co_await undo_commit(*parts_, std::move(entry), std::move(where));
}

asio::awaitable<Result<DiffBody>> SessionManager::diff_between(std::string from, std::string to,
                                                               LayerChoice where, DiffForm form) {
  CO_TRY(EntryPointer one, parts_->registry.find(from));
  CO_TRY(EntryPointer other, parts_->registry.find(to));
  co_return co_await diff_sessions(*parts_, std::move(one), std::move(other), std::move(where),
                                   form);
}

asio::awaitable<Result<Snapshot>> SessionManager::snapshot(std::string id) {
  CO_TRY(EntryPointer entry, parts_->registry.find(id));
  co_return co_await snapshot_session(*parts_, std::move(entry));
}

asio::awaitable<Result<SessionInfo>> SessionManager::recycle(std::string id,
                                                             RecycleRequest request) {
  CO_TRY(EntryPointer entry, parts_->registry.find(id));
  co_return co_await recycle_session(*parts_, std::move(entry), std::move(request));
}

asio::awaitable<Result<std::vector<SessionInfo>>> SessionManager::fork(std::string id,
                                                                       ForkRequest request) {
  CO_TRY_VOID(check_fork(request));
  CO_TRY(EntryPointer entry, parts_->registry.find(id));
  co_return co_await fork_session(*parts_, std::move(entry), std::move(request));
}

asio::awaitable<Result<CheckpointFile>> SessionManager::checkpoint(std::string id,
                                                                   CheckpointRequest request) {
  CO_TRY_VOID(check_checkpoint(request));
  CO_TRY(EntryPointer entry, parts_->registry.find(id));
  co_return co_await checkpoint_session(*parts_, std::move(entry), std::move(request));
}

asio::awaitable<Result<Restored>> SessionManager::restore(UniqueFd file, RestoreRequest request) {
  co_return co_await restore_session(*parts_, std::move(file), std::move(request));
}

Result<std::string> SessionManager::usage(std::string_view id) const {
  TRY(const EntryPointer entry, parts_->registry.find(id));
  return use_mark(*entry);
}

Result<SessionReport> SessionManager::report(std::string_view id) const {
  TRY(const EntryPointer entry, parts_->registry.find(id));
  return report_of(*entry);
}

asio::awaitable<Abilities> SessionManager::probe() { co_return co_await probe_host(*parts_); }

SessionCounts SessionManager::counts() const {
  SessionCounts counts = parts_->registry.counts();
  counts.launcher_restarts = parts_->boxes.launcher_restarts();
  counts.parked = parts_->boxes.pool_stats();
  return counts;
}

asio::awaitable<Result<std::uint64_t>> SessionManager::layer_bytes() {
  co_return co_await parts_->layers.measure();
}

LayerUsage& SessionManager::layer_usage() { return *parts_->layers.usage(); }

SpoolShare SessionManager::spool_share() { return SpoolShare(parts_->layers.spool_quota()); }

std::vector<NarrowedSession> SessionManager::narrow(std::span<const policy::PolicyChange> changes,
                                                    egress::Existing existing) {
  return narrow_sessions(*parts_, changes, existing);
}

Result<NarrowedBox> SessionManager::narrow_session(std::string_view id,
                                                   const SessionNarrowing& narrowing) {
  TRY(const EntryPointer entry, parts_->registry.find(id));
  return session::narrow_session(*parts_, *entry, narrowing);
}

void SessionManager::observe(std::function<void(const SessionEvent&)> observer) {
  parts_->registry.events().observe(std::move(observer));
}

std::unique_ptr<EventFeed> SessionManager::watch() { return parts_->registry.events().watch(); }

asio::awaitable<void> SessionManager::stop(LayerFate fate) {
  co_await stop_sessions(*parts_, fate);
}

}  // namespace glovebox::session
