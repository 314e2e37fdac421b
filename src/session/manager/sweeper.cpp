#include "session/manager/sweeper.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <deque>
#include <map>

namespace glovebox::session {
namespace {

constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);
// How long a session that is dead is remembered when no request deletes it.
constexpr std::chrono::hours kDeadLife{24 * 14};

}  // namespace

void Sweeper::start() { common_.tasks.spawn(keep_sweeping()); }

// Cancelled, a wait comes back as an error and the steps around it take back what they had begun: a
// removal that is cut short must not leave its session marked.
asio::awaitable<void> Sweeper::keep_sweeping() {
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!common_.is_stopping) {
    timer_.expires_after(common_.settings.sweep_period);
    const auto [problem] = co_await timer_.async_wait(kAsTuple);
    if (problem || common_.is_stopping) co_return;
    co_await sweep();
  }
}

asio::awaitable<void> Sweeper::sweep() {
  registry_.write_runs();
  python_.sweep(PythonCells::Whose::Expired);
  co_await layers_.bound_layers();
  const std::vector<EntryPointer> idle = expired();
  for (const EntryPointer& entry : idle) {
    if (common_.is_stopping) co_return;
    // It may have come into use while another was being removed.
    if (entry->layer_turn->is_taken()) continue;
    if (entry->live && entry->live->is_alive() && is_in_use(*entry)) continue;
    // One that is dead was there for long enough. What fails is tried again by the next sweep.
    const bool is_dead = entry->record.info.state == SessionState::Dead;
    const LayerFate fate = is_dead ? LayerFate::Remove : common_.settings.on_idle;
    co_await remove_(entry, fate);
  }
  co_await layers_.retry_removals();
}

std::vector<EntryPointer> Sweeper::expired() const {
  std::vector<EntryPointer> found;
  std::vector<EntryPointer> dead;
  const auto now = std::chrono::steady_clock::now();
  for (const auto& [id, entry] : registry_.entries()) {
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

// One by one the oldest of the owner that has the most: none are forgotten for those of another.
void Sweeper::forget_more(std::vector<EntryPointer> dead, std::vector<EntryPointer>& found) const {
  if (dead.size() <= common_.settings.max_dead) return;
  std::ranges::sort(dead, {}, [](const EntryPointer& entry) {
    // The wall clock may have been set back since.
    return std::pair(entry->dead_since,
                     entry->record.info.end ? entry->record.info.end->at : WallTime());
  });
  std::map<std::string, std::deque<EntryPointer>> by_owner;
  for (const EntryPointer& entry : dead) {
    by_owner[owner_of(entry->record.info.effective)].push_back(entry);
  }
  for (std::size_t more = dead.size() - common_.settings.max_dead; more > 0; --more) {
    auto& most = std::ranges::max_element(by_owner, {}, [](const auto& one) {
                   return one.second.size();
                 })->second;
    found.push_back(most.front());
    most.pop_front();
  }
}

}  // namespace glovebox::session
