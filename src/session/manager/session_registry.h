// The sessions of a SessionManager: which there are, what is known of them, what is written down of
// them, and who is told. It knows nothing of how boxes are made or layers are removed.
//
// The loop's thread only.
#pragma once

#include "session/manager/event_feed.h"
#include "session/manager/manager_common.h"
#include "session/manager/manager_requests.h"
#include "session/manager/session_entry.h"
#include "session/store/session_store.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace glovebox::session {

class SessionRegistry {
 public:
  using Entries = std::map<std::string, EntryPointer, std::less<>>;

  explicit SessionRegistry(ManagerCommon& common) : common_(common), events_(common.loop) {}

  // Opens the store and takes up the sessions of a former service, which are dead.
  Result<void> open();

  const Entries& entries() const { return entries_; }
  Result<EntryPointer> find(std::string_view id) const;  // Code::NotFound
  EntryPointer find_or_null(std::string_view id) const;
  // Sessions of all states, oldest first; with labels, those that have them all. Without those that
  // are being removed.
  std::vector<SessionInfo> list(const std::map<std::string, std::string>& labels) const;
  SessionCounts counts() const;  // without what the launcher counts
  bool uses_layer(const std::string& layer, const SessionEntry* but) const;

  // For so many sessions more. Code::Exhausted.
  Result<void> check_room(std::size_t more) const;
  // Code::NotFound for one that is being removed, and an error when the service is ending.
  Result<void> check_wanted(const SessionEntry& entry) const;
  // How many sessions are starting: each has a Count of it (scoped_count.h).
  const std::shared_ptr<std::size_t>& starting() const { return starting_; }

  // A session that begins now: later than the last one, whatever the clock says, because sessions
  // are told apart by their order.
  EntryPointer make_entry(std::string id);
  void add(const EntryPointer& entry);
  void erase(const std::string& id) { entries_.erase(id); }
  Result<void> change(SessionEntry& entry, const SessionChange& change);

  // Records. put() and remove() return when it is written.
  asio::awaitable<Result<void>> put(const SessionEntry& entry) { return store_->put(entry.record); }
  asio::awaitable<Result<void>> remove(const std::string& id) { return store_->remove(id); }
  void put_later(const SessionEntry& entry) { store_->put_later(entry.record); }
  asio::awaitable<Result<void>> flush() { return store_->flush(); }
  // Layers that a former version kept by the store alone. Blocks.
  Result<std::vector<std::string>> load_kept_layers() { return store_->load_kept_layers(); }

  // A run began or ended. Its end is noted at once, and written down by write_runs().
  void note_run(const std::string& id, const RunRecord& run);
  void write_runs();

  EventHub& events() { return events_; }
  void tell(EventKind kind, const SessionEntry& entry, std::string detail, DenialWords denial = {});

 private:
  EntryPointer adopt(StoredSession stored);

  ManagerCommon& common_;
  std::unique_ptr<Store> store_;
  EventHub events_;
  Entries entries_;
  std::shared_ptr<std::size_t> starting_ = std::make_shared<std::size_t>(0);
  std::vector<std::pair<std::string, RunRecord>> unwritten_runs_;
  WallTime last_creation_{};
};

}  // namespace glovebox::session
