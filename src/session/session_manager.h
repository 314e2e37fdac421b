// The Manager of real boxes.
#pragma once

#include "session/box_session.h"
#include "session/event_feed.h"
#include "session/launcher_line.h"
#include "session/manager.h"
#include "session/networks.h"
#include "session/prepare.h"
#include "session/store.h"

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

  asio::awaitable<Result<SessionInfo>> create(SessionRequest request) override;
  asio::awaitable<Result<void>> check(SessionRequest request) override;
  std::vector<SessionInfo> list(const std::map<std::string, std::string>& labels) const override;
  Result<SessionInfo> get(std::string_view id) const override;
  Result<std::shared_ptr<LiveSession>> attach(std::string_view id) override;
  Result<SessionInfo> change(std::string_view id, const Change& change) override;
  asio::awaitable<Result<void>> remove(std::string id, LayerFate fate) override;
  asio::awaitable<Result<SessionInfo>> end(std::string id) override;
  asio::awaitable<Result<DiffBody>> diff(std::string id, LayerChoice where, DiffForm form) override;
  asio::awaitable<Result<workspace::CommitResult>> commit(std::string id,
                                                          CommitRequest request) override;
  asio::awaitable<Result<workspace::UndoResult>> undo(std::string id, LayerChoice where) override;
  Result<SessionReport> report(std::string_view id) const override;
  asio::awaitable<Abilities> probe() override;
  Counts counts() const override;
  asio::awaitable<Result<std::uint64_t>> layer_bytes() override;
  std::vector<NarrowedSession> narrow(std::span<const policy::PolicyChange> changes,
                                      egress::Existing existing) override;
  void observe(std::function<void(const SessionEvent&)> observer) override;
  std::unique_ptr<EventFeed> watch() override;
  asio::awaitable<void> stop(LayerFate fate) override;

 private:
  // A session in the registry.
  struct Entry {
    SessionRecord record;
    std::shared_ptr<const plan::LaunchPlan> plan;  // none for a session of a former service
    std::shared_ptr<BoxSession> live;              // the same; stays when it is dead
    std::vector<UniqueFd> holds;                   // of its layers
    std::map<std::string, SharedFd> memory;        // of its layers that lie in memory, by id
    std::deque<RunRecord> runs;
    std::shared_ptr<TurnQueue> layer_turn;  // commits and undos, one at a time
    std::optional<PolicyOrigin> origin;
    bool is_being_removed = false;
  };
  using EntryPointer = std::shared_ptr<Entry>;

  // A box that the launcher has not reported gone.
  struct BoxBook {
    explicit BoxBook(asio::io_context& loop) : gone(loop) {}
    std::weak_ptr<BoxSession> session;
    Wakeup gone;
    bool is_gone = false;
  };

  // A box on its way to be a session.
  struct Newborn {
    std::string id;
    std::shared_ptr<const plan::LaunchPlan> plan;
    std::shared_ptr<BoxSession> live;
    std::shared_ptr<BoxBook> book;
    std::vector<std::string> proved;
  };

  // Opening (manager.cpp).
  Result<void> lock_state();
  Result<void> recover();
  Result<void> remove_unknown_layers();
  EntryPointer adopt(StoredSession stored);
  Result<EntryPointer> find(std::string_view id) const;
  SessionInfo info_of(const Entry& entry) const;
  static void add_live_usage(const Entry& entry, SessionUsage& usage);

  // Creating (manager_create.cpp).
  asio::awaitable<Result<Newborn>> give_birth(std::shared_ptr<Prepared> prepared);
  BoxSettings box_settings(const Prepared& prepared, const std::string& id);
  EntryPointer enter(const Newborn& newborn, Prepared& prepared);
  asio::awaitable<void> take_back(std::shared_ptr<Prepared> prepared, Newborn newborn);
  void on_run(const std::string& id, const RunRecord& run);
  void on_denied(const std::string& id, const egress::Denied& denied);
  void on_end(const std::string& id, const SessionEnd& end);
  void on_box_ended(std::uint64_t box, const launch::RemoteEnd& end);
  void on_launcher_gone(const std::vector<std::uint64_t>& boxes);
  asio::awaitable<Result<void>> try_box(const std::string& directory);

  // Narrowing (manager_narrow.cpp).
  NarrowedBox narrow_to(Entry& entry, const policy::Policy& now, egress::Existing existing);
  void narrow_newborn(Entry& entry, const Prepared& prepared);

  // Ending (manager_end.cpp).
  asio::awaitable<bool> await_gone(std::shared_ptr<BoxSession> live);
  asio::awaitable<Result<void>> remove_for(EntryPointer entry, LayerFate fate, EndCause cause,
                                           std::string sentence);
  asio::awaitable<void> remove_layers(std::vector<std::string> ids);
  void write_runs();
  asio::awaitable<void> sweep();
  asio::awaitable<void> keep_sweeping(std::weak_ptr<bool> there);
  std::vector<EntryPointer> expired() const;
  void tell(EventKind kind, const Entry& entry, std::string detail);

  // Layers (manager_layers.cpp).
  void take_memory(Entry& entry, std::vector<HeldLayer>& layers) const;
  asio::awaitable<void> settle_layers(EntryPointer entry);
  asio::awaitable<void> bound_layers();
  Result<std::string> layer_of(const Entry& entry, const LayerChoice& where) const;
  // Opens a layer, with what lies in memory; for the pool.
  using OpenLayer = std::function<Result<workspace::Layer>()>;
  OpenLayer opener(const Entry& entry, const std::string& layer) const;

  asio::io_context& loop_;
  ManagerSettings settings_;
  UniqueFd lock_;
  std::shared_ptr<Preparer> preparer_;
  std::string spool_directory_;
  std::unique_ptr<Store> store_;
  EventHub events_;
  asio::thread_pool pool_;
  Networks networks_;
  LauncherLine launcher_;
  std::map<std::string, EntryPointer, std::less<>> sessions_;
  std::unordered_map<std::uint64_t, std::shared_ptr<BoxBook>> boxes_;
  std::shared_ptr<std::size_t> starting_ = std::make_shared<std::size_t>(0);
  // Written down by the next sweep, many at a time.
  std::vector<std::pair<std::string, RunRecord>> unwritten_runs_;
  std::vector<std::string> doomed_layers_;              // could not be removed yet
  std::chrono::steady_clock::time_point next_measure_;  // of all layers
  asio::steady_timer sweep_timer_;
  bool is_stopping_ = false;
  std::shared_ptr<bool> is_there_ = std::make_shared<bool>(true);
};

}  // namespace glovebox::session
