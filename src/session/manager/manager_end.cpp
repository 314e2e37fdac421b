// How sessions end and are forgotten.
#include "async/co_try.h"
#include "async/on_pool.h"
#include "session/manager/session_manager.h"
#include "workspace/tree/printable.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>

namespace glovebox::session {
namespace {

constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);
// How long a session that is dead is remembered when nobody deletes it.
constexpr std::chrono::hours kDeadLife{24 * 14};

// All of a session's, with what they stand on.
std::vector<std::string> layers_of(const SessionInfo& info) {
  std::vector<std::string> layers;
  for (const WorkspaceInfo& place : info.workspaces) {
    if (place.layer_id.empty()) continue;
    layers.push_back(place.layer_id);
    layers.insert(layers.end(), place.below.begin(), place.below.end());
  }
  return layers;
}

std::string kept_text(const LeftBehind& kept) {
  std::string text;
  for (const KeptLayer& one : kept) {
    if (!text.empty()) text += "; ";
    text += fmt::format("changes in {} are kept as layer {}",
                        workspace::printable(one.layer.origin), one.layer.id);
  }
  return text;
}

}  // namespace

void SessionManager::tell(EventKind kind, const Entry& entry, std::string detail,
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

// Whether the launcher said in time that nothing of the box is left.
asio::awaitable<bool> SessionManager::await_gone(std::shared_ptr<BoxSession> live) {
  const auto found = boxes_.find(live->box_id());
  if (found == boxes_.end()) co_return true;
  const std::shared_ptr<RunningBox> running = found->second;
  // Not of this coroutine: a timer that has just run out calls back although it is destroyed.
  const auto waiter = std::make_shared<RunningBox::Waiter>(loop_);
  running->waiters.push_back(waiter);
  asio::steady_timer timer(loop_, settings_.end_timeout);
  timer.async_wait([waiter](const boost::system::error_code& problem) {
    if (problem) return;
    waiter->is_late = true;
    waiter->wakeup.notify();
  });
  while (!running->is_gone && !waiter->is_late) {
    const Woken woken = co_await waiter->wakeup.wait();
    if (woken == Woken::Canceled) break;
  }
  std::erase(running->waiters, waiter);
  co_return running->is_gone;
}

asio::awaitable<Result<LeftBehind>> SessionManager::remove(std::string id, LayerFate fate) {
  CO_TRY(EntryPointer entry, find(id));
  co_return co_await remove_for(std::move(entry), fate, EndCause::Deleted,
                                "the session was deleted");
}

// Counts nothing, and marks nothing, in layers that are removed.
asio::awaitable<Result<LeftBehind>> SessionManager::keep_layers(EntryPointer entry) {
  co_await settle_memory(entry);
  if (!entry->memory.empty()) {
    co_return fail(Code::Os,
                   "what the session changed lies in memory and cannot be written to the disk; the "
                   "session is still there, dead");
  }
  OpenLayers layers;
  for (const WorkspaceInfo& place : entry->record.info.workspaces) {
    if (!place.layer_id.empty()) layers.push_back(opener(*entry, place.layer_id));
  }
  const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  const workspace::Kept mark{.session = entry->record.info.id,
                             .owner = owner_of(entry->record.info.effective),
                             .at = kept_layers_.time_of_next(now.count())};
  const auto work = [layers = std::move(layers), mark] { return keep_changed(layers, mark); };
  auto kept = co_await on_pool(pool_, work);
  if (!kept) co_return kept;
  for (const KeptLayer& one : *kept) kept_layers_.add(one.layer, mark.at);
  co_return kept;
}

// Removes what ended sessions left behind and is too old, or too much for one owner.
asio::awaitable<void> SessionManager::expire_kept() {
  const auto work = [preparer = preparer_] {
    return workspace::expired_kept(preparer->layers(), kKeptRetention);
  };
  const auto expired = co_await on_pool(pool_, work);
  if (!expired) co_return;  // looked at again when the next session leaves something behind
  for (const std::string& layer : *expired) {
    co_await give_up(layer, "it is too old, or one too many of its owner's");
  }
}

asio::awaitable<void> SessionManager::give_up(std::string layer, std::string why) {
  std::vector<std::string> ids = kept_layers_.take(layer);
  if (ids.empty()) co_return;
  SessionEvent event;
  event.kind = EventKind::LayerGivenUp;
  event.detail = fmt::format("layer {}: {}", layer, why);
  events_.tell(std::move(event));
  co_await remove_layers(std::move(ids));
}

asio::awaitable<Result<LeftBehind>> SessionManager::remove_for(EntryPointer entry, LayerFate fate,
                                                               EndCause cause,
                                                               std::string sentence) {
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
  Result<LeftBehind> kept = LeftBehind();
  if (fate == LayerFate::Keep) kept = co_await keep_layers(entry);
  // Forgotten first, on disk: a layer that no session names and that has no mark is removed by the
  // next service, so being killed here leaves nothing behind.
  Result<void> forgotten;
  if (kept) forgotten = co_await store_->remove(id);
  if (!kept || !forgotten) {
    entry->is_being_removed = false;
    co_return unexpected(kept ? forgotten.error() : kept.error());
  }
  sessions_.erase(id);
  entry->holds.clear();
  entry->memory.clear();
  tell(EventKind::Deleted, *entry, kept_text(*kept));
  co_await remove_layers(layers_of(entry->record.info));
  if (!kept->empty()) co_await expire_kept();
  co_return kept;
}

// What cannot be removed is tried again by the sweep. What others stand on stays: the last of them
// takes it along.
asio::awaitable<void> SessionManager::remove_layers(std::vector<std::string> ids) {
  std::erase_if(ids, [this](const std::string& id) { return is_used(id, nullptr); });
  if (ids.empty()) co_return;
  struct Outcome {
    std::vector<std::string> marked;
    std::vector<std::string> left;
  };
  const auto work = [preparer = preparer_, ids = std::move(ids)] {
    Outcome outcome;
    for (const std::string& id : ids) {
      const auto marked = workspace::mark_removed(preparer->layers(), id);
      if (marked) {
        outcome.marked.push_back(id);
      } else if (marked.error().code != Code::NotFound) {
        outcome.left.push_back(id);
      }
    }
    return outcome;
  };
  Outcome outcome = co_await on_pool(pool_, work);
  unremoved_.insert(unremoved_.end(), outcome.left.begin(), outcome.left.end());
  co_await remover_->take(std::move(outcome.marked));
}

bool SessionManager::is_used(const std::string& layer, const Entry* but) const {
  if (kept_layers_.uses(layer)) return true;
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
  if (unwritten_runs_.empty()) return;
  const Store::Batch batch(*store_);
  for (const auto& [id, run] : std::exchange(unwritten_runs_, {})) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end() || found->second->is_being_removed) continue;
    store_->put_run_later(id, run, found->second->record.info.runs);
  }
}

asio::awaitable<void> SessionManager::sweep() {
  write_runs();
  sweep_python(PythonPool<StartedBox>::Whose::Expired);
  co_await bound_layers();
  const std::vector<EntryPointer> idle = expired();
  for (const EntryPointer& entry : idle) {
    // Somebody may have begun to use it while another was being removed.
    if (entry->layer_turn->is_taken()) continue;
    if (entry->live && entry->live->is_alive() && is_in_use(*entry)) continue;
    // One that is dead was there for long enough. What fails is tried again by the next sweep.
    const bool is_dead = entry->record.info.state == SessionState::Dead;
    const LayerFate fate = is_dead ? LayerFate::Remove : settings_.on_idle;
    (void)co_await remove_for(entry, fate, EndCause::Idle, "the session was idle");
  }
  std::vector<std::string> again = std::exchange(unremoved_, {});
  for (std::string& id : remover_->take_left()) again.push_back(std::move(id));
  co_await remove_layers(std::move(again));
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
  sweep_python(PythonPool<StartedBox>::Whose::All);
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
  co_await remover_->drain(settings_.end_timeout);  // the rest is for the next service
  write_runs();
  (void)co_await store_->flush();  // there is nobody left to tell
  events_.close();
}

}  // namespace glovebox::session
