// How sessions end and are forgotten.
#include "session/co_try.h"
#include "session/pool.h"
#include "session/session_manager.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>

namespace glovebox::session {
namespace {

constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);
// How long a session that is dead is remembered when nobody deletes it.
constexpr std::chrono::hours kDeadLife{24 * 14};

}  // namespace

void SessionManager::tell(EventKind kind, const Entry& entry, std::string detail) {
  SessionEvent event;
  event.kind = kind;
  event.session = entry.record.info.id;
  if (entry.record.info.policy) event.policy_digest = entry.record.info.policy->digest;
  event.end = entry.record.info.end;
  event.detail = std::move(detail);
  events_.tell(std::move(event));
}

// Whether the launcher said in time that nothing of the box is left.
asio::awaitable<bool> SessionManager::await_gone(std::shared_ptr<BoxSession> live) {
  const auto found = boxes_.find(live->box_id());
  if (found == boxes_.end()) co_return true;
  const std::shared_ptr<BoxBook> book = found->second;
  // Not of this coroutine: a timer that has just run out calls back although it is destroyed.
  const auto waiter = std::make_shared<BoxBook::Waiter>(loop_);
  book->waiters.push_back(waiter);
  asio::steady_timer timer(loop_, settings_.end_timeout);
  timer.async_wait([waiter](const boost::system::error_code& problem) {
    if (problem) return;
    waiter->is_late = true;
    waiter->wakeup.notify();
  });
  while (!book->is_gone && !waiter->is_late) {
    const Woken woken = co_await waiter->wakeup.wait();
    if (woken == Woken::Canceled) break;
  }
  std::erase(book->waiters, waiter);
  co_return book->is_gone;
}

asio::awaitable<Result<void>> SessionManager::remove(std::string id, LayerFate fate) {
  CO_TRY(EntryPointer entry, find(id));
  co_return co_await remove_for(std::move(entry), fate, EndCause::Deleted,
                                "the session was deleted");
}

asio::awaitable<Result<void>> SessionManager::remove_for(EntryPointer entry, LayerFate fate,
                                                         EndCause cause, std::string sentence) {
  const std::string id = entry->record.info.id;
  if (entry->is_being_removed) co_return fail(Code::NotFound, "there is no session {}", id);
  entry->is_being_removed = true;
  if (entry->is_cell) {
    end_cell(entry, {"closed", std::move(sentence)});
  } else if (entry->live) {
    const std::shared_ptr<BoxSession> live = entry->live;
    live->close(cause, std::move(sentence));
    const bool is_gone = co_await await_gone(live);
    if (!is_gone) {
      entry->is_being_removed = false;
      co_return unexpected(Error{Code::Os, ETIMEDOUT, "the box did not end in time; try again"});
    }
  }
  // The box was ended first, because who has the turn may be waiting for something in it. A commit
  // is whole before its layer goes, and so is what moves from memory to the disk; a fork has its
  // children, who keep what they stand on; and a fresh box is not wanted any more.
  const auto turn = co_await entry->layer_turn->take(WhenBusy::Wait);
  if (!turn) {
    entry->is_being_removed = false;
    co_return unexpected(turn.error());
  }
  // Forgotten first, on disk: a layer that no session names is removed by the next service, so
  // being killed here leaves nothing behind.
  std::vector<std::string> layers;
  for (const WorkspaceInfo& place : entry->record.info.workspaces) {
    if (place.layer_id.empty()) continue;
    layers.push_back(place.layer_id);
    layers.insert(layers.end(), place.below.begin(), place.below.end());
  }
  if (fate == LayerFate::Keep) {
    for (const std::string& layer : std::exchange(layers, {})) {
      store_->keep_layer_later(layer);
      kept_layers_.insert(layer);
    }
  }
  auto forgotten = co_await store_->remove(id);
  if (!forgotten) {
    entry->is_being_removed = false;
    co_return forgotten;
  }
  sessions_.erase(id);
  entry->holds.clear();
  entry->memory.clear();
  tell(EventKind::Deleted, *entry, {});
  co_await remove_layers(std::move(layers));
  co_return Result<void>();
}

// What cannot be removed is tried again by the sweep. What others stand on stays: the last of them
// takes it along.
asio::awaitable<void> SessionManager::remove_layers(std::vector<std::string> ids) {
  std::erase_if(ids, [this](const std::string& id) { return is_used(id, nullptr); });
  if (ids.empty()) co_return;
  struct Outcome {
    std::vector<std::string> doomed;
    std::vector<std::string> left;
  };
  const auto work = [preparer = preparer_, ids = std::move(ids)] {
    Outcome outcome;
    for (const std::string& id : ids) {
      const auto doomed = workspace::doom_layer(preparer->layers(), id);
      if (doomed) {
        outcome.doomed.push_back(id);
      } else if (doomed.error().code != Code::NotFound) {
        outcome.left.push_back(id);
      }
    }
    return outcome;
  };
  Outcome outcome = co_await on_pool(pool_, work);
  doomed_layers_.insert(doomed_layers_.end(), outcome.left.begin(), outcome.left.end());
  co_await trash_->take(std::move(outcome.doomed));
}

bool SessionManager::is_used(const std::string& layer, const Entry* but) const {
  if (kept_layers_.contains(layer)) return true;
  return std::ranges::any_of(sessions_, [&](const auto& one) {
    if (one.second.get() == but) return false;
    return std::ranges::any_of(one.second->record.info.workspaces, [&](const WorkspaceInfo& place) {
      return place.layer_id == layer || std::ranges::find(place.below, layer) != place.below.end();
    });
  });
}

asio::awaitable<Result<SessionInfo>> SessionManager::end(std::string id) {
  CO_TRY(const EntryPointer entry, find(id));
  if (!entry->live) co_return info_of(*entry);
  if (entry->is_cell) {
    end_cell(entry, {"closed", "the session was ended"});
    co_return info_of(*entry);
  }
  entry->live->close(EndCause::Deleted, "the session was ended");
  const bool is_gone = co_await await_gone(entry->live);
  if (!is_gone) {
    co_return unexpected(Error{Code::Os, ETIMEDOUT, "the box did not end in time; try again"});
  }
  co_return info_of(*entry);
}

// Idle ones; and of the dead, those that nobody came for.
std::vector<SessionManager::EntryPointer> SessionManager::expired() const {
  std::vector<EntryPointer> found;
  std::vector<EntryPointer> dead;
  const auto now = std::chrono::steady_clock::now();
  for (const auto& [id, entry] : sessions_) {
    if (entry->is_being_removed || entry->layer_turn->is_taken()) continue;
    const SessionInfo& info = entry->record.info;
    if (info.state == SessionState::Dead) {
      if (!entry->dead_since) entry->dead_since = now;
      const bool is_old = now - *entry->dead_since > kDeadLife;
      (is_old ? found : dead).push_back(entry);
      continue;
    }
    entry->dead_since.reset();
    const bool is_idle = info.idle_timeout.count() > 0 && !is_in_use(*entry) &&
                         now - last_use(*entry) > info.idle_timeout;
    if (is_idle) found.push_back(entry);
  }
  forget_more(std::move(dead), found);
  return found;
}

// One by one the oldest of whoever has the most: nobody's are forgotten for another's.
void SessionManager::forget_more(std::vector<EntryPointer> dead,
                                 std::vector<EntryPointer>& found) const {
  if (dead.size() <= settings_.max_dead) return;
  std::ranges::sort(dead, {}, [](const EntryPointer& entry) {
    // The wall clock may have been set back since.
    return std::pair(entry->dead_since,
                     entry->record.info.end ? entry->record.info.end->at : WallTime());
  });
  std::map<std::string, std::deque<EntryPointer>> by_owner;
  for (const EntryPointer& entry : dead) {
    by_owner[owner_of(entry->record.info.effective)].push_back(entry);
  }
  for (std::size_t more = dead.size() - settings_.max_dead; more > 0; --more) {
    auto& most = std::ranges::max_element(by_owner, {}, [](const auto& one) {
                   return one.second.size();
                 })->second;
    found.push_back(most.front());
    most.pop_front();
  }
}

void SessionManager::write_runs() {
  for (const auto& [id, run] : std::exchange(unwritten_runs_, {})) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end() || found->second->is_being_removed) continue;
    store_->put_run_later(id, run, found->second->record.info.runs);
  }
}

asio::awaitable<void> SessionManager::sweep() {
  write_runs();
  sweep_python(PythonPool<Newborn>::Whose::Expired);
  co_await bound_layers();
  const std::vector<EntryPointer> idle = expired();
  for (const EntryPointer& entry : idle) {
    // Somebody may have begun to use it while another was being removed.
    if (entry->layer_turn->is_taken()) continue;
    if (entry->live && entry->live->is_alive() && is_in_use(*entry)) continue;
    // What fails is tried again by the next sweep.
    (void)co_await remove_for(entry, LayerFate::Remove, EndCause::Idle, "the session was idle");
  }
  std::vector<std::string> doomed = std::exchange(doomed_layers_, {});
  for (std::string& id : trash_->take_left()) doomed.push_back(std::move(id));
  co_await remove_layers(std::move(doomed));
}

asio::awaitable<void> SessionManager::keep_sweeping(std::weak_ptr<bool> there) {
  while (!there.expired()) {
    sweep_timer_.expires_after(settings_.sweep_period);
    const auto [problem] = co_await sweep_timer_.async_wait(kAsTuple);
    if (problem || there.expired() || is_stopping_) co_return;
    co_await sweep();
  }
}

asio::awaitable<void> SessionManager::stop(LayerFate fate) {
  is_stopping_ = true;
  sweep_timer_.cancel();
  sweep_python(PythonPool<Newborn>::Whose::All);
  std::vector<EntryPointer> all;
  for (const auto& [id, entry] : sessions_) all.push_back(entry);
  for (const EntryPointer& entry : all) {
    if (entry->live) entry->live->close(EndCause::ServiceEnded, "the service has ended");
  }
  for (const EntryPointer& entry : all) {
    if (entry->live)
      (void)co_await await_gone(entry->live);  // bounded; the launcher kills the rest
  }
  for (const EntryPointer& entry : all) {
    if (fate == LayerFate::Keep) co_await settle_layers(entry);
  }
  for (const EntryPointer& entry : all) {
    if (fate != LayerFate::Remove) break;
    // What is left is removed by the next service on this directory.
    (void)co_await remove_for(entry, fate, EndCause::ServiceEnded, "the service has ended");
  }
  co_await trash_->drain(settings_.end_timeout);  // the rest is for the next service
  write_runs();
  (void)co_await store_->flush();  // there is nobody left to tell
  events_.close();
}

}  // namespace glovebox::session
