// The Manager of real boxes.
#pragma once

#include "session/box/box_networks.h"
#include "session/manager/cell_workers.h"
#include "session/manager/event_feed.h"
#include "session/manager/launcher_connection.h"
#include "session/manager/layer_remover.h"
#include "session/manager/manager.h"
#include "session/manager/python_pool.h"
#include "session/prepare/prepare.h"
#include "session/store/kept_layers.h"
#include "session/store/session_store.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include <deque>
#include <map>
#include <unordered_map>

namespace glovebox::session {

class SessionManager final : public Manager {
 public:
  SessionManager(asio::io_context& loop, ManagerSettings settings);
  ~SessionManager() override;
  Result<void> open();

  asio::awaitable<Result<SessionInfo>> create(BoxRequest request) override;
  asio::awaitable<RequestFault> find_fault(BoxRequest request) override;
  asio::awaitable<Result<void>> check(BoxRequest request) override;
  std::vector<SessionInfo> list(const std::map<std::string, std::string>& labels) const override;
  Result<SessionInfo> get(std::string_view id) const override;
  Result<std::shared_ptr<LiveSession>> attach(std::string_view id) override;
  Result<std::shared_ptr<PythonHost>> python(std::string_view id) override;
  Result<SessionInfo> change(std::string_view id, const Change& change) override;
  asio::awaitable<Result<LeftBehind>> remove(std::string id, LayerFate fate) override;
  asio::awaitable<Result<SessionInfo>> end(std::string id) override;
  asio::awaitable<Result<DiffBody>> diff(std::string id, LayerChoice where, DiffForm form) override;
  asio::awaitable<Result<workspace::CommitResult>> commit(std::string id,
                                                          CommitRequest request) override;
  asio::awaitable<Result<workspace::UndoResult>> undo(std::string id, LayerChoice where) override;
  asio::awaitable<Result<DiffBody>> diff_between(std::string from, std::string to,
                                                 LayerChoice where, DiffForm form) override;
  asio::awaitable<Result<Snapshot>> snapshot(std::string id) override;
  asio::awaitable<Result<SessionInfo>> recycle(std::string id, RecycleRequest request) override;
  asio::awaitable<Result<std::vector<SessionInfo>>> fork(std::string id,
                                                         ForkRequest request) override;
  asio::awaitable<Result<CheckpointFile>> checkpoint(std::string id,
                                                     CheckpointRequest request) override;
  asio::awaitable<Result<Restored>> restore(UniqueFd file, RestoreRequest request) override;
  Result<std::string> usage(std::string_view id) const override;
  Result<SessionReport> report(std::string_view id) const override;
  asio::awaitable<Abilities> probe() override;
  Counts counts() const override;
  asio::awaitable<Result<std::uint64_t>> layer_bytes() override;
  LayerUsage& layer_usage() override { return *layer_usage_; }
  SpoolShare spool_share() override { return SpoolShare(spool_quota_); }
  std::vector<NarrowedSession> narrow(std::span<const policy::PolicyChange> changes,
                                      egress::Existing existing) override;
  Result<NarrowedBox> narrow_session(std::string_view id,
                                     const SessionNarrowing& narrowing) override;
  void observe(std::function<void(const SessionEvent&)> observer) override;
  std::unique_ptr<EventFeed> watch() override;
  asio::awaitable<void> stop(LayerFate fate) override;

 private:
  // A session in the registry.
  struct Entry {
    SessionRecord record;
    std::shared_ptr<const plan::LaunchPlan> plan;  // none for a session of a former service
    std::shared_ptr<BoxSession> live;              // the same; stays when it is dead
    std::shared_ptr<PythonHost> python;            // of a Python session
    bool is_cell = false;                          // it shares `live` with others
    std::vector<UniqueFd> holds;                   // of its layers
    std::map<std::string, SharedFd> memory;        // of its layers that lie in memory, by id
    std::deque<RunRecord> runs;
    // Commits, undos, forks, fresh boxes, and the end of it all: one at a time.
    std::shared_ptr<Semaphore> layer_turn;
    std::optional<PolicyOrigin> origin;
    // Since when the sweep has found it dead. No clock that somebody sets.
    std::optional<std::chrono::steady_clock::time_point> dead_since{};
    bool is_being_removed = false;
    bool is_being_renewed = false;  // between two boxes
    // What was asked for, with values of variables and an inline policy, which are written nowhere.
    std::optional<BoxRequest> asked;
    KnownPlaces places;  // of that request; both are empty for a session of a former service
  };
  using EntryPointer = std::shared_ptr<Entry>;

  // What a session begins with beside its request.
  struct Origin {
    std::string id{};      // empty: a new one
    std::string parent{};  // the session it was forked from
    LayerSources layers{};
    std::optional<ShellState> shell{};
    std::uint64_t runs_before = 0;
    std::string policy_digest{};              // that the policy must have; empty: any
    std::optional<KnownPlaces> known{};       // of a request that was prepared before
    std::function<Result<void>()> recheck{};  // on the loop, before it is entered; may be empty
  };

  // Opening (manager.cpp).
  Result<void> lock_state();
  Result<void> recover();
  Result<void> remove_unknown_layers();
  EntryPointer adopt(StoredSession stored);
  Result<EntryPointer> find(std::string_view id) const;
  // Code::Exhausted while the session is between two boxes.
  static Result<void> check_settled(const Entry& entry);
  // Code::NotFound for one that is being removed, and an error when the service is ending.
  Result<void> check_wanted(const Entry& entry) const;
  SessionInfo info_of(const Entry& entry) const;
  static void add_live_usage(const Entry& entry, SessionUsage& usage);

  // Creating (manager_create.cpp).
  Result<void> check_room(std::size_t more) const;  // for sessions more; Code::Exhausted
  asio::awaitable<Result<SessionInfo>> create_from(BoxRequest request, Origin origin);
  asio::awaitable<Result<SessionInfo>> create_prepared(BoxRequest request, Origin origin,
                                                       std::shared_ptr<Prepared> prepared);
  asio::awaitable<Result<std::shared_ptr<Prepared>>> prepare(BoxRequest request,
                                                             const Origin& origin);
  asio::awaitable<Result<StartedBox>> start_box(std::shared_ptr<Prepared> prepared,
                                                const Origin& origin);
  BoxSettings box_settings(const Prepared& prepared, const std::shared_ptr<const std::string>& id);
  EntryPointer enter(const StartedBox& started, Prepared& prepared);
  // Later than the last one, whatever the clock says: sessions are told apart by their order.
  WallTime next_creation();
  asio::awaitable<void> discard_box(std::shared_ptr<Prepared> prepared, StartedBox started);
  void on_run(const std::string& id, const RunRecord& run);
  void on_denied(const std::string& id, const egress::Denied& denied, std::uint64_t times);
  void on_end(const std::string& id, const SessionEnd& end);
  void on_box_ended(std::uint64_t box, const launch::RemoteEnd& end);
  void on_launcher_gone(const std::vector<std::uint64_t>& boxes);
  asio::awaitable<Result<void>> try_box(const std::string& directory);

  // Snapshots and fresh boxes (manager_state.cpp).
  void step(std::string_view name) const;
  using Env = std::vector<plan::EnvEntry>;
  Result<BoxRequest> asked_of(const Entry& entry, const Env& env) const;
  // The same, held to everything that a new request is held to.
  asio::awaitable<Result<BoxRequest>> asked_again(EntryPointer entry, Env env, Review review);
  asio::awaitable<Result<Snapshot>> take_snapshot(EntryPointer entry, Env env);
  asio::awaitable<Result<std::optional<ShellState>>> shell_of(EntryPointer entry);
  asio::awaitable<Result<void>> renew(EntryPointer entry, BoxRequest request, Origin origin);
  void fill_record(Entry& entry, const StartedBox& started, Prepared& prepared) const;
  void die(Entry& entry, const std::string& sentence);

  // Forks (manager_fork.cpp).
  Result<void> check_same(const Entry& parent, const BoxRequest& before) const;
  asio::awaitable<Result<LayerSources>> freeze(EntryPointer entry, bool& must_renew);
  asio::awaitable<Result<std::vector<SessionInfo>>> make_children(EntryPointer entry,
                                                                  const ForkRequest& request,
                                                                  BoxRequest asked, Origin origin);

  // Narrowing (manager_narrow.cpp).
  NarrowedBox narrow_to(Entry& entry, const policy::Policy& now, egress::Existing existing);
  void tell_narrowed(const Entry& entry, const NarrowedBox& narrowed);
  void narrow_started(Entry& entry, const Prepared& prepared);

  // Python (manager_python.cpp).
  asio::awaitable<Result<StartedBox>> start_any_box(std::shared_ptr<Prepared> prepared,
                                                    const Origin& origin);
  asio::awaitable<Result<StartedBox>> make_interpreter(std::shared_ptr<Prepared> prepared,
                                                       const Origin& origin);
  asio::awaitable<Result<StartedBox>> make_cell(std::shared_ptr<Prepared> prepared,
                                                std::optional<std::string> key,
                                                const Origin& origin);
  StartedBox take_parked(const std::optional<std::string>& key, const Origin& origin);
  asio::awaitable<Result<std::shared_ptr<CellWorker>>> find_cell_worker(
      std::shared_ptr<Prepared> prepared, std::optional<std::string> key);
  void keep_stock(const Prepared& prepared, const std::optional<std::string>& key);
  void leave_worker(const PythonHost& host, const PythonEnd& end);
  static asio::awaitable<void> make_ahead(SessionManager& manager, std::weak_ptr<bool> there,
                                          std::string key, std::shared_ptr<Prepared> prepared);
  Result<void> begin_python(StartedBox& started, const PythonPlan& plan);
  void on_python_end(const std::string& id, const PythonEnd& end);
  void end_cell(const EntryPointer& entry, const PythonEnd& end);
  bool reseat(const std::string& id);
  static asio::awaitable<void> reseat_cell(SessionManager& manager, std::weak_ptr<bool> there,
                                           std::string id);
  void sweep_python(PythonPool<StartedBox>::Whose whose);
  static std::size_t under_way(const Entry& entry);
  static bool is_in_use(const Entry& entry);
  static std::chrono::steady_clock::time_point last_use(const Entry& entry);

  // Ending (manager_end.cpp).
  asio::awaitable<bool> await_gone(std::shared_ptr<BoxSession> live);
  asio::awaitable<Result<LeftBehind>> remove_for(EntryPointer entry, LayerFate fate, EndCause cause,
                                                 std::string sentence);
  asio::awaitable<Result<LeftBehind>> keep_layers(EntryPointer entry);
  asio::awaitable<void> expire_kept();
  asio::awaitable<void> give_up(std::string layer, std::string why);
  asio::awaitable<void> remove_layers(std::vector<std::string> ids);  // their files go later
  bool is_used(const std::string& layer, const Entry* but) const;  // by others than `but`, or kept
  void write_runs();
  asio::awaitable<void> sweep();
  asio::awaitable<void> keep_sweeping(std::weak_ptr<bool> there);
  std::vector<EntryPointer> expired() const;
  void forget_more(std::vector<EntryPointer> dead, std::vector<EntryPointer>& found) const;
  void tell(EventKind kind, const Entry& entry, std::string detail, DenialWords denial = {});

  // Layers (manager_layers.cpp).
  void take_memory(Entry& entry, std::vector<HeldLayer>& layers) const;
  asio::awaitable<void> settle_layers(EntryPointer entry);
  asio::awaitable<void> settle_memory(EntryPointer entry);  // by who has the turn
  asio::awaitable<void> bound_layers();
  Result<std::string> layer_of(const Entry& entry, const LayerChoice& where) const;
  // The session's shell, if it has one, and its layers, of one box. Code::NotFound when it is gone.
  using Turns = std::vector<Semaphore::Permit>;
  asio::awaitable<Result<Turns>> take_turns(EntryPointer entry, WhenBusy when_busy);
  // Opens a layer, with what lies in memory; for the pool.
  using OpenLayer = std::function<Result<workspace::Layer>()>;
  OpenLayer opener(const Entry& entry, const std::string& layer) const;

  asio::io_context& loop_;
  ManagerSettings settings_;
  UniqueFd lock_;
  std::shared_ptr<Preparer> preparer_;
  std::string spool_directory_;
  std::shared_ptr<LayerUsage> layer_usage_;
  std::shared_ptr<SpoolQuota> spool_quota_;
  std::unique_ptr<LayerRemover> remover_;
  std::unique_ptr<Store> store_;
  EventHub events_;
  asio::thread_pool pool_;
  asio::thread_pool restore_pool_{1};  // reading a checkpoint holds up nothing but its like
  asio::thread_pool message_pool_{1};  // nor does reading a long message of a Python session
  BoxNetworks networks_;
  LauncherConnection launcher_;
  std::map<std::string, EntryPointer, std::less<>> sessions_;
  std::unordered_map<std::uint64_t, std::shared_ptr<RunningBox>> boxes_;
  std::shared_ptr<std::size_t> starting_ = std::make_shared<std::size_t>(0);  // of scoped_count.h
  std::vector<std::pair<std::string, RunRecord>> unwritten_runs_;  // until the next sweep
  std::chrono::steady_clock::time_point next_measure_;             // of all layers
  std::map<std::string, std::uint64_t> sizes_with_room_;  // of layers, when there was room last
  std::map<std::string, LayerLook> last_looks_;           // at layers, when that was possible last
  std::vector<std::string> unremoved_;                    // could not be taken away yet
  KeptLayers kept_layers_;                                // although their session is forgotten
  PythonPool<StartedBox> python_pool_;
  std::size_t python_starting_ = 0;  // ahead of need
  CellWorkers cell_workers_;
  asio::steady_timer sweep_timer_;
  WallTime last_creation_{};
  bool is_stopping_ = false;
  std::shared_ptr<bool> is_there_ = std::make_shared<bool>(true);
};

}  // namespace glovebox::session
