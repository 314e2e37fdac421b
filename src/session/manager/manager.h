// All sessions of one service.
//
// Arguments of these coroutines are named first, never written as a braced list in the call: g++ 12
// destroys such a temporary twice.
//
// The Manager owns the launcher process, the registry of sessions, their layers and the store. It
// lives on one event loop and belongs to the loop's thread; disk work goes to a pool of threads,
// and a box starts without the loop waiting for it.
//
// What holds when the process is killed at any moment: boxes die with the launcher, and the
// launcher with this process; a session whose create() had returned is in the store, and the next
// Manager on the same directory reports it dead, with its layers kept for diff and commit; layers
// that no session of the store names are removed.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "egress/broker.h"
#include "policy/policy_store.h"
#include "request/box_request.h"
#include "session/box/live_session.h"
#include "session/manager/pool_stats.h"
#include "session/state/state_requests.h"
#include "session/store/layer_usage.h"
#include "session/store/session_event.h"
#include "session/store/session_info.h"
#include "workspace/commit/commit.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::session {

class PythonHost;  // python_host.h

struct ManagerSettings {
  std::string launcher;             // the program glovebox-launcher
  std::string state_directory;      // layers, spools and the store live below; made 0700
  std::size_t max_sessions = 1000;  // alive at a time
  std::uint32_t keep_parked = 0;    // boxes of each shape that wait for their request
  // Dead ones that are remembered. Beyond it the oldest of the owner who has the most are deleted.
  std::size_t max_dead = 1000;
  std::chrono::milliseconds default_idle = kDefaultIdle;
  LayerFate on_idle = LayerFate::Keep;  // of a session that was idle for too long
  // Of idle collection, of removals tried again, and of writing down what runs there were.
  std::chrono::milliseconds sweep_period{1000};
  std::chrono::milliseconds start_timeout{20'000};
  std::chrono::milliseconds end_timeout{5'000};  // how long a delete waits for a box to be gone
  std::uint64_t most_diff_bytes = std::uint64_t{4} << 30;
  // What all layers may take on the disk together; 0: no bound. Looked at by the sweep, less often
  // where looking takes long: when it is too much, the session whose layer grew most ends.
  std::uint64_t most_layer_bytes = 0;
  // What bodies on their way may take on the disk together (spool_quota.h); 0: no bound.
  std::uint64_t most_spool_bytes = 0;
  std::size_t pool_threads = 2;
  // Where the secrets are that requests may name; empty: none can be handed in.
  std::string secrets_directory;
  std::string name_servers;  // asked for boxes: egress::BrokerSettings
  // Policies that requests may name; without it, the templates of the product alone. A request
  // never names a file.
  std::shared_ptr<policy::PolicyStore> policies;
  // Paths that no box may see, whatever it is handed, beside the state directory: the service's
  // sockets, tokens and configuration.
  std::vector<std::string> hidden;
  // The same for what is hidden once it is there, such as a store that its first use makes.
  std::vector<std::string> hidden_later{};
  // Where Python interpreters beside the system's may be. Empty: everywhere.
  std::vector<std::string> interpreter_roots{};
  // Told before each step that changes what is on disk when sessions are recycled, forked, written
  // out or restored; for tests of what a crash leaves there. May be empty.
  std::function<void(std::string_view step)> on_step{};
};

enum class DiffForm : std::uint8_t { TarGz, Json, Unified };

// A finished body in a file without a name, read from its start.
struct DiffBody {
  UniqueFd file;
  SpoolShare share;  // lives as long as the file
  std::uint64_t size = 0;
  std::size_t changes = 0;
};

// Which of a session's workspaces is meant: its path, or empty for the first that has a layer.
struct LayerChoice {
  std::string workspace;
};

struct CommitRequest {
  LayerChoice where;
  workspace::Selection selection;
  workspace::Act act = workspace::Act::Apply;
  WhenBusy when_busy = WhenBusy::Wait;
};

class Manager {
 public:
  // Opens the store, takes up what a former Manager left, and starts the launcher. It blocks, for
  // once; call it before the loop runs, on the thread that will run it: the launcher process dies
  // with the thread that started it. SIGPIPE is ignored from here on. Code::Denied when another
  // Manager uses the directory.
  static Result<std::unique_ptr<Manager>> open(asio::io_context& loop, ManagerSettings settings);

  virtual ~Manager() = default;

  // Returns when the session's agent is ready. Nothing is left behind when it fails. Refusals:
  // Code::Invalid for a request that makes no sense, Denied for what is not allowed, NotFound for a
  // path or policy that is not there, Unsupported for what this host cannot enforce, Exhausted when
  // there are max_sessions.
  virtual asio::awaitable<Result<SessionInfo>> create(BoxRequest request) = 0;
  // Of a request that was refused: what of it is wrong by itself, whatever the rest of it says.
  virtual asio::awaitable<RequestFault> find_fault(BoxRequest request) = 0;
  // Its checks without its effects.
  virtual asio::awaitable<Result<void>> check(BoxRequest request) = 0;
  // Sessions of all states, oldest first; with labels, those that have them all.
  virtual std::vector<SessionInfo> list(
      const std::map<std::string, std::string>& labels = {}) const = 0;
  virtual Result<SessionInfo> get(std::string_view id) const = 0;
  // The session itself, to run and to move files. Code::NotFound when there is none. One that is
  // dead refuses everything but to tell of its background runs; of one that died with a former
  // service nothing is left to attach to, which is Code::Os with the reason.
  virtual Result<std::shared_ptr<LiveSession>> attach(std::string_view id) = 0;

  // The channel of a Python session. Code::NotFound for one that is none.
  virtual Result<std::shared_ptr<PythonHost>> python(std::string_view id) = 0;

  struct Change {
    std::optional<std::map<std::string, std::string>> labels;
    std::optional<std::chrono::milliseconds> idle_timeout;  // 0: never
    std::optional<std::string> name;
  };
  // Code::Exhausted while the session gets a fresh box: nothing was changed then.
  virtual Result<SessionInfo> change(std::string_view id, const Change& change) = 0;

  // Ends the box and forgets the session. What waits for it gets an error. With Code::Os the box
  // did not go in time: the session is still there, dead, and can be deleted again; the Manager
  // tries by itself too. Waits for a commit, a fork or a recycle that is under way; the last gives
  // up. A second delete of the same session is Code::NotFound. Returns what was kept.
  virtual asio::awaitable<Result<LeftBehind>> remove(std::string id, LayerFate fate) = 0;
  // Ends the box and keeps the session, dead, with its layers.
  virtual asio::awaitable<Result<SessionInfo>> end(std::string id) = 0;

  // What the box changed, also of a dead session. Code::Unsupported for one without a layer, and
  // Code::Exhausted when the body would be larger than most_diff_bytes.
  virtual asio::awaitable<Result<DiffBody>> diff(std::string id, LayerChoice where,
                                                 DiffForm form) = 0;
  virtual asio::awaitable<Result<workspace::CommitResult>> commit(std::string id,
                                                                  CommitRequest request) = 0;
  virtual asio::awaitable<Result<workspace::UndoResult>> undo(std::string id,
                                                              LayerChoice where) = 0;

  // From what the one session is to what the other is, in a workspace that both have: branches of
  // one fork, or any two sessions over one directory.
  virtual asio::awaitable<Result<DiffBody>> diff_between(std::string from, std::string to,
                                                         LayerChoice where, DiffForm form) = 0;

  // The session as a value (snapshot.h). Waits for its shell to be idle.
  virtual asio::awaitable<Result<Snapshot>> snapshot(std::string id) = 0;
  // A fresh box for the session, alive or dead, with everything else as it was: id, request,
  // policy, handed capabilities, labels. Whatever runs in the old one ends with it. When it fails
  // the session is dead, with the layers that it had.
  virtual asio::awaitable<Result<SessionInfo>> recycle(std::string id, RecycleRequest request) = 0;
  // Sessions that begin where this one is: with its files, and its shell's directory and exported
  // variables, in boxes of their own. Nothing is copied: the layer so far is frozen, and the
  // session itself goes on over it like its children, in a fresh box if it had written anything.
  // All of them, or none.
  virtual asio::awaitable<Result<std::vector<SessionInfo>>> fork(std::string id,
                                                                 ForkRequest request) = 0;

  // The session as a file: its snapshot and what its layers hold. Waits for its shell; commits and
  // forks wait meanwhile.
  virtual asio::awaitable<Result<CheckpointFile>> checkpoint(std::string id,
                                                             CheckpointRequest request) = 0;
  // A session of its own from such a file, which must be read from its start and is read to its
  // end: what is wrong with it anywhere is an error, and then there is no session and no layer.
  virtual asio::awaitable<Result<Restored>> restore(UniqueFd file, RestoreRequest request) = 0;
  // Something that changes whenever the session is used, for who wants to know whether it was.
  virtual Result<std::string> usage(std::string_view id) const = 0;

  virtual Result<SessionReport> report(std::string_view id) const = 0;

  // What the service as a whole can do, for /capabilities.
  struct Abilities {
    bool available = false;  // a box was started and ended on this host
    std::string problem;     // why not
    bool overlay = false;
    host::Tier tier = host::Tier::User;
  };
  // Starts a box like a session's with an overlay workspace, runs something in it, and ends it.
  virtual asio::awaitable<Abilities> probe() = 0;

  struct Counts {
    std::size_t alive = 0;
    std::size_t dead = 0;
    std::size_t starting = 0;
    std::uint64_t launcher_restarts = 0;
    PoolStats parked;
  };
  virtual Counts counts() const = 0;
  // Bytes in all layers, by their disk use. Walks them, on the pool, for layer_usage() too.
  virtual asio::awaitable<Result<std::uint64_t>> layer_bytes() = 0;
  // What is known of that without looking.
  virtual LayerUsage& layer_usage() = 0;
  // For a body that somebody else puts into a file.
  virtual SpoolShare spool_share() = 0;

  // After a reload of the policies: every running box whose policy is among the changed ones loses
  // at once what it was granted of the network and is not any more, and gets the smaller budgets,
  // as far as a running box can. None gains anything. With Cut, connections that are no longer
  // granted are ended, also those that an earlier reload has left. Sessions that were on their way
  // are narrowed before create() returns.
  virtual std::vector<NarrowedSession> narrow(std::span<const policy::PolicyChange> changes,
                                              egress::Existing existing) = 0;

  // What one session may still do. Capabilities of other kinds than those of the network, and
  // budgets that the kernel cannot lower while a box runs, are no part of it.
  struct SessionNarrowing {
    std::optional<authority::AuthoritySet> network;  // nothing: as it is
    authority::AuthoritySet budgets;                 // memory, pids, wall, output, connections, ...
    std::optional<std::uint64_t> cpus_milli;
    egress::Existing existing = egress::Existing::Keep;
  };
  // Takes from a running box what lies outside, at once and for good: a box that is made of the
  // same request later has no more. Refused with Code::Unsupported, before anything is done, when
  // a term cannot be narrowed in a box that runs; what the kernel then refuses all the same is
  // listed in for_new_boxes. Refused with Code::Exhausted while the session gets a fresh box. A
  // fork that is under way ends with Code::Exhausted: no child has what its parent has lost.
  virtual Result<NarrowedBox> narrow_session(std::string_view id,
                                             const SessionNarrowing& narrowing) = 0;

  // Every event, on the loop, before anybody else hears of it; for audit and metrics. It must not
  // wait and must not call back.
  virtual void observe(std::function<void(const SessionEvent&)> observer) = 0;
  virtual std::unique_ptr<EventFeed> watch() = 0;

  // The last thing to do, before the Manager and then its loop are destroyed: ends every box, waits
  // for them, bounded, and writes everything down. Sessions are found dead by the next Manager, or
  // with Remove are deleted.
  virtual asio::awaitable<void> stop(LayerFate fate) = 0;
};

}  // namespace glovebox::session
