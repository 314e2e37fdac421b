// What a SessionManager does with its parts: each operation uses several of them, and no part knows
// the operations. By file:
//
//   session_create.cpp      a session begins
//   session_end.cpp         a session ends, and is removed
//   session_changes.cpp     what its boxes changed: diff, commit, undo
//   session_renew.cpp       snapshots, and fresh boxes
//   session_fork.cpp        sessions that go on from where one is
//   session_checkpoint.cpp  sessions as files
//   session_narrow.cpp      less for a session that runs
//
// SessionManager says what its callers may rely on. All of it on the loop's thread.
#pragma once

#include "session/manager/manager_parts.h"
#include "session/state/state_requests.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace glovebox::session {

// Creating.
asio::awaitable<Result<SessionInfo>> create_session(ManagerParts& parts, BoxRequest request,
                                                    SessionOrigin origin);
asio::awaitable<Result<SessionInfo>> create_prepared(ManagerParts& parts, BoxRequest request,
                                                     SessionOrigin origin,
                                                     std::shared_ptr<Prepared> prepared);
// A refusal is told as an event.
asio::awaitable<Result<std::shared_ptr<Prepared>>> prepare_box(ManagerParts& parts,
                                                               BoxRequest request,
                                                               const SessionOrigin& origin);
// With its interpreter, if it is for a Python session.
asio::awaitable<Result<StartedBox>> start_prepared(ManagerParts& parts,
                                                   std::shared_ptr<Prepared> prepared,
                                                   const SessionOrigin& origin);
void fill_entry(const ManagerParts& parts, SessionEntry& entry, const StartedBox& started,
                Prepared& prepared);
// What happened to the box of a session while the registry did not know it by that name.
void catch_up(ManagerParts& parts, SessionEntry& entry, const Prepared& prepared);
asio::awaitable<Abilities> probe_host(ManagerParts& parts);

// Ending.
void note_end(ManagerParts& parts, const std::string& id, const SessionEnd& end);
void note_denied(ManagerParts& parts, const std::string& id, const egress::Denied& denied,
                 std::uint64_t times);
asio::awaitable<Result<LeftBehind>> remove_session(ManagerParts& parts, EntryPointer entry,
                                                   LayerFate fate, EndCause cause,
                                                   std::string sentence);
// For the sweep: what fails is tried again by the next one.
asio::awaitable<void> remove_idle(ManagerParts& parts, EntryPointer entry, LayerFate fate);
asio::awaitable<Result<SessionInfo>> end_session(ManagerParts& parts, EntryPointer entry);
asio::awaitable<void> stop_sessions(ManagerParts& parts, LayerFate fate);

// Changes in layers.
asio::awaitable<Result<DiffBody>> diff_session(ManagerParts& parts, EntryPointer entry,
                                               LayerChoice where, DiffForm form);
asio::awaitable<Result<DiffBody>> diff_sessions(ManagerParts& parts, EntryPointer from,
                                                EntryPointer to, LayerChoice where, DiffForm form);
asio::awaitable<Result<workspace::CommitResult>> commit_session(ManagerParts& parts,
                                                                EntryPointer entry,
                                                                CommitRequest request);
asio::awaitable<Result<workspace::UndoResult>> undo_commit(ManagerParts& parts, EntryPointer entry,
                                                           LayerChoice where);
// The session's shell, if it has one, and its layers, of one box. Code::NotFound when it is gone.
using Turns = std::vector<Semaphore::Permit>;
asio::awaitable<Result<Turns>> take_turns(ManagerParts& parts, EntryPointer entry,
                                          WhenBusy when_busy);

// Snapshots and fresh boxes.
using Env = std::vector<plan::EnvEntry>;
// The request with everything that is needed to make the session again, or which part of it is
// nowhere any more.
Result<BoxRequest> asked_of(const SessionEntry& entry, const Env& env);
// The same, held to everything that a new request is held to.
asio::awaitable<Result<BoxRequest>> asked_again(ManagerParts& parts, EntryPointer entry, Env env,
                                                Review review);
// The caller has the session's shell to itself.
asio::awaitable<Result<Snapshot>> take_snapshot(ManagerParts& parts, EntryPointer entry, Env env);
asio::awaitable<Result<Snapshot>> snapshot_session(ManagerParts& parts, EntryPointer entry);
// Ends the session's box, if there is one, and gives it another, with layers as `origin` says. What
// is on disk is the old state until the record is written, and the new one from then on.
asio::awaitable<Result<void>> renew_session(ManagerParts& parts, EntryPointer entry,
                                            BoxRequest request, SessionOrigin origin);
asio::awaitable<Result<SessionInfo>> recycle_session(ManagerParts& parts, EntryPointer entry,
                                                     RecycleRequest request);

// Refusals of the request by itself.
Result<void> check_fork(const ForkRequest& request);
Result<void> check_checkpoint(const CheckpointRequest& request);

asio::awaitable<Result<std::vector<SessionInfo>>> fork_session(ManagerParts& parts,
                                                               EntryPointer entry,
                                                               ForkRequest request);

asio::awaitable<Result<CheckpointFile>> checkpoint_session(ManagerParts& parts, EntryPointer entry,
                                                           CheckpointRequest request);
asio::awaitable<Result<Restored>> restore_session(ManagerParts& parts, UniqueFd file,
                                                  RestoreRequest request);

// Narrowing.
std::vector<NarrowedSession> narrow_sessions(ManagerParts& parts,
                                             std::span<const policy::PolicyChange> changes,
                                             egress::Existing existing);
Result<NarrowedBox> narrow_session(ManagerParts& parts, SessionEntry& entry,
                                   const SessionNarrowing& narrowing);
// A session that was on its way while the policies changed: it was planned by those of before.
void narrow_started(ManagerParts& parts, SessionEntry& entry, const Prepared& prepared);

}  // namespace glovebox::session
