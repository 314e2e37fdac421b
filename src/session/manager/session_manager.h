// All sessions of one service.
//
// Arguments of these coroutines are named first, never written as a braced list in the call: g++ 12
// destroys such a temporary twice.
//
// It owns the launcher process, the registry of sessions, their layers and the store. It
// lives on one event loop and belongs to the loop's thread; disk work goes to a pool of threads,
// and a box starts without the loop waiting for it.
//
// What holds when the process is killed at any moment: boxes die with the launcher, and the
// launcher with this process; a session whose create() had returned is in the store, and the next
// SessionManager on the same directory reports it dead, with its layers kept for diff and commit;
// layers that no session of the store names are removed.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "request/box_request.h"
#include "session/box/live_session.h"
#include "session/manager/manager_requests.h"
#include "session/manager/manager_settings.h"
#include "session/state/state_requests.h"
#include "session/store/layer_usage.h"
#include "session/store/session_event.h"
#include "session/store/session_info.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::session {

class PythonHost;     // session/python/python_host.h
struct ManagerParts;  // manager_parts.h

class SessionManager {
 public:
  // Opens the store, takes up what a former one left, and starts the launcher. It blocks, for
  // once; call it before the loop runs, on the thread that will run it: the launcher process dies
  // with the thread that started it. SIGPIPE is ignored from here on. Code::Denied when another
  // SessionManager uses the directory.
  static Result<std::unique_ptr<SessionManager>> open(asio::io_context& loop,
                                                      ManagerSettings settings);

  ~SessionManager();
  SessionManager(const SessionManager&) = delete;
  SessionManager& operator=(const SessionManager&) = delete;

  // Returns when the session's agent is ready. Nothing is left behind when it fails. Refusals:
  // Code::Invalid for a request that makes no sense, Denied for what is not allowed, NotFound for a
  // path or policy that is not there, Unsupported for what this host cannot enforce, Exhausted when
  // there are max_sessions.
  asio::awaitable<Result<SessionInfo>> create(BoxRequest request);
  // Of a request that was refused: what of it is wrong by itself, whatever the rest of it says.
  asio::awaitable<RequestFault> find_fault(BoxRequest request);
  // Its checks without its effects.
  asio::awaitable<Result<void>> check(BoxRequest request);
  // Sessions of all states, oldest first; with labels, those that have them all.
  std::vector<SessionInfo> list(const std::map<std::string, std::string>& labels = {}) const;
  Result<SessionInfo> get(std::string_view id) const;
  // The session itself, to run and to move files. Code::NotFound when there is none. One that is
  // dead refuses everything but to tell of its background runs; of one that died with a former
  // service nothing is left to attach to, which is Code::Os with the reason.
  Result<std::shared_ptr<LiveSession>> attach(std::string_view id);

  // The channel of a Python session. Code::NotFound for one that is none.
  Result<std::shared_ptr<PythonHost>> python(std::string_view id);

  // Code::Exhausted while the session gets a fresh box: nothing was changed then.
  Result<SessionInfo> change(std::string_view id, const SessionChange& change);

  // Ends the box and forgets the session. What waits for it gets an error. With Code::Os the box
  // did not go in time: the session is still there, dead, and can be deleted again; the manager
  // tries by itself too. Waits for a commit, a fork or a recycle that is under way; the last gives
  // up. A second delete of the same session is Code::NotFound. Returns what was kept.
  asio::awaitable<Result<LeftBehind>> remove(std::string id, LayerFate fate);
  // Ends the box and keeps the session, dead, with its layers.
  asio::awaitable<Result<SessionInfo>> end(std::string id);

  // What the box changed, also of a dead session. Code::Unsupported for one without a layer, and
  // Code::Exhausted when the body would be larger than most_diff_bytes.
  asio::awaitable<Result<DiffBody>> diff(std::string id, LayerChoice where, DiffForm form);
  asio::awaitable<Result<workspace::CommitResult>> commit(std::string id, CommitRequest request);
  asio::awaitable<Result<workspace::UndoResult>> undo(std::string id, LayerChoice where);

  // From what the one session is to what the other is, in a workspace that both have: branches of
  // one fork, or any two sessions over one directory.
  asio::awaitable<Result<DiffBody>> diff_between(std::string from, std::string to,
                                                 LayerChoice where, DiffForm form);

  // The session as a value (snapshot.h). Waits for its shell to be idle.
  asio::awaitable<Result<Snapshot>> snapshot(std::string id);
  // A fresh box for the session, alive or dead, with everything else as it was: id, request,
  // policy, handed capabilities, labels. Whatever runs in the old one ends with it. When it fails
  // the session is dead, with the layers that it had.
  asio::awaitable<Result<SessionInfo>> recycle(std::string id, RecycleRequest request);
  // Sessions that begin where this one is: with its files, and its shell's directory and exported
  // variables, in boxes of their own. Nothing is copied: the layer so far is frozen, and the
  // session itself goes on over it like its children, in a fresh box if it had written anything.
  // All of them, or none.
  asio::awaitable<Result<std::vector<SessionInfo>>> fork(std::string id, ForkRequest request);

  // The session as a file: its snapshot and what its layers hold. Waits for its shell; commits and
  // forks wait meanwhile.
  asio::awaitable<Result<CheckpointFile>> checkpoint(std::string id, CheckpointRequest request);
  // A session of its own from such a file, which must be read from its start and is read to its
  // end: what is wrong with it anywhere is an error, and then there is no session and no layer.
  asio::awaitable<Result<Restored>> restore(UniqueFd file, RestoreRequest request);
  // Something that changes whenever the session is used, for who wants to know whether it was.
  Result<std::string> usage(std::string_view id) const;

  Result<SessionReport> report(std::string_view id) const;

  // Starts a box like a session's with an overlay workspace, runs something in it, and ends it.
  asio::awaitable<Abilities> probe();

  SessionCounts counts() const;
  // Bytes in all layers, by their disk use. Walks them, on the pool, for layer_usage() too.
  asio::awaitable<Result<std::uint64_t>> layer_bytes();
  // What is known of that without looking.
  LayerUsage& layer_usage();
  // For a body that another part of the service puts into a file.
  SpoolShare spool_share();

  // After a reload of the policies: every running box whose policy is among the changed ones loses
  // at once what it was granted of the network and is not any more, and gets the smaller budgets,
  // as far as a running box can. None gains anything. With Cut, connections that are no longer
  // granted are ended, also those that an earlier reload has left. Sessions that were on their way
  // are narrowed before create() returns.
  std::vector<NarrowedSession> narrow(std::span<const policy::PolicyChange> changes,
                                      egress::Existing existing);

  // Takes from a running box what lies outside, at once and for good: a box that is made of the
  // same request later has no more. Refused with Code::Unsupported, before anything is done, when
  // a term cannot be narrowed in a box that runs; what the kernel then refuses all the same is
  // listed in for_new_boxes. Refused with Code::Exhausted while the session gets a fresh box. A
  // fork that is under way ends with Code::Exhausted: no child has what its parent has lost.
  Result<NarrowedBox> narrow_session(std::string_view id, const SessionNarrowing& narrowing);

  // Every event, on the loop, before any other listener; for audit and metrics. It must not
  // wait and must not call back.
  void observe(std::function<void(const SessionEvent&)> observer);
  std::unique_ptr<EventFeed> watch();

  // The last thing to do, before the manager and then its loop are destroyed: ends every box, waits
  // for them, bounded, and writes everything down. Sessions are found dead by the next one, or
  // with Remove are deleted.
  asio::awaitable<void> stop(LayerFate fate);

 private:
  explicit SessionManager(std::unique_ptr<ManagerParts> parts);

  std::unique_ptr<ManagerParts> parts_;
};

}  // namespace glovebox::session
