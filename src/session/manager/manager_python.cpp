// Python sessions: boxes with an interpreter in them, made ahead of need. Cells are in
// manager_cells.cpp.
#include "async/co_try.h"
#include "base/uuid.h"
#include "plan/make_plan.h"
#include "session/manager/session_manager.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>

namespace glovebox::session {
namespace {

// How many interpreters are started ahead at a time: they compete with those that somebody waits
// for.
constexpr std::size_t kMaxStarting = 2;
// How long after a session began the next interpreter is started: the first operation of the one
// has the machine to itself meanwhile.
constexpr std::chrono::milliseconds kAheadPause{30};
constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);

std::optional<launch::LimitKind> limit_of(std::string_view reason) {
  if (reason == "cpu") return launch::LimitKind::Cpu;
  if (reason == "wall") return launch::LimitKind::Wall;
  if (reason == "memory") return launch::LimitKind::Memory;
  if (reason == "output") return launch::LimitKind::Output;
  return std::nullopt;
}

}  // namespace

asio::awaitable<Result<StartedBox>> SessionManager::start_any_box(
    std::shared_ptr<Prepared> prepared, const Origin& origin) {
  if (!prepared->python) co_return co_await start_box(prepared, origin);
  const std::optional<std::string> key = python_pool_key(*prepared);
  if (prepared->python->backend == plan::Backend::Cell) {
    co_return co_await make_cell(prepared, key, origin);
  }
  StartedBox started;
  if (!origin.shell) started = take_parked(key, origin);
  if (!started.live) {
    CO_TRY(started, co_await make_interpreter(prepared, origin));
  }
  CO_TRY_VOID(begin_python(started, *prepared->python));
  keep_stock(*prepared, key);
  co_return started;
}

// More of the kind that was just taken, if it is one that can be made ahead.
void SessionManager::keep_stock(const Prepared& prepared, const std::optional<std::string>& key) {
  if (!key) return;
  auto more = std::make_shared<Prepared>();
  more->plan = prepared.plan;
  more->home = prepared.home;
  more->python = prepared.python;
  more->effective.prove = prepared.effective.prove;  // what is asked of this one holds for them
  asio::co_spawn(loop_, make_ahead(*this, is_there_, *key, std::move(more)), asio::detached);
}

// A box with an interpreter that was made ahead, or nothing. It takes the name of a session that is
// there, if it is for one.
StartedBox SessionManager::take_parked(const std::optional<std::string>& key,
                                       const Origin& origin) {
  while (key) {
    auto ready = python_pool_.take(*key);
    if (!ready) break;
    if (!ready->live->is_alive() || ready->worker->is_over()) continue;
    if (!origin.id.empty()) {
      ready->id = *ready->whose = origin.id;
      ready->live->count_runs_from(origin.runs_before);
    }
    return *std::move(ready);
  }
  return {};
}

asio::awaitable<Result<StartedBox>> SessionManager::make_interpreter(
    std::shared_ptr<Prepared> prepared, const Origin& origin) {
  CO_TRY(StartedBox started, co_await start_box(prepared, origin));
  started.worker = std::make_shared<PythonWorker>(loop_, message_pool_, started.live);
  std::vector<std::string> command = python_command(*prepared->python);
  auto ready = co_await started.worker->start(std::move(command));
  if (ready) co_return started;
  started.live->close(EndCause::Deleted, "its interpreter did not start");
  (void)co_await await_gone(started.live);  // bounded
  co_return unexpected(std::move(ready).error());
}

// Keeps up the stock of one kind. What fails here fails again when somebody waits for it, and is
// told to them.
asio::awaitable<void> SessionManager::make_ahead(SessionManager& manager, std::weak_ptr<bool> there,
                                                 std::string key,
                                                 std::shared_ptr<Prepared> prepared) {
  asio::steady_timer pause(manager.loop_, kAheadPause);
  (void)co_await pause.async_wait(kAsTuple);  // nobody cancels it
  while (!there.expired() && !manager.is_stopping_ && manager.python_pool_.wants(key) &&
         manager.python_starting_ < kMaxStarting) {
    ++manager.python_starting_;
    const Origin fresh;
    auto made = co_await manager.make_interpreter(prepared, fresh);
    if (there.expired()) co_return;
    --manager.python_starting_;
    if (!made) co_return;
    if (manager.is_stopping_) {
      made->live->close(EndCause::ServiceEnded, "the service has ended");
      co_return;
    }
    // Another may have been made for the same kind meanwhile.
    if (!manager.python_pool_.wants(key)) {
      made->live->close(EndCause::Deleted, "nobody came for it");
      co_return;
    }
    auto spare = manager.python_pool_.put(key, *std::move(made));
    if (spare) spare->live->close(EndCause::Deleted, "nobody came for it");
  }
}

Result<void> SessionManager::begin_python(StartedBox& started, const PythonPlan& plan) {
  const std::weak_ptr<bool> there = is_there_;
  if (!started.python) started.python = std::make_shared<PythonHost>(loop_, started.worker, 0);
  PythonCallbacks callbacks;
  callbacks.on_end = [this, there, id = started.id,
                      host = std::weak_ptr(started.python)](const PythonEnd& end) {
    if (there.expired()) return;
    const auto cell = host.lock();
    if (cell && cell->plan().backend == plan::Backend::Cell) leave_worker(*cell, end);
    on_python_end(id, end);
  };
  callbacks.on_worker_lost = [this, there, id = started.id] {
    return !there.expired() && reseat(id);
  };
  callbacks.on_denial = [this, there, id = started.id](const PythonDenial& denial) {
    if (there.expired()) return;
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return;
    std::string text = fmt::format("{}: no grant of {}", denial.action, denial.capability);
    if (denial.times > 1) text += fmt::format(", {} times", denial.times);
    tell(EventKind::Denied, *found->second, std::move(text),
         {denial.capability, denial.action, denial.rule});
  };
  return started.python->begin(plan, std::move(callbacks));
}

// The interpreter is gone or went too far: so does its box, unless others live in it.
void SessionManager::on_python_end(const std::string& id, const PythonEnd& end) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || !found->second->live) return;
  const EntryPointer entry = found->second;
  const auto limit = limit_of(end.reason);
  const bool is_wanted = end.reason == "closed";
  const EndCause cause = limit       ? EndCause::Limit
                         : is_wanted ? EndCause::Deleted
                                     : EndCause::AgentGone;
  if (!entry->is_cell) return entry->live->end_for(cause, limit, end.sentence);
  on_end(id, SessionEnd{cause, limit, end.sentence, std::chrono::system_clock::now()});
}

// Ends boxes that were made ahead and not wanted, and workers without cells.
void SessionManager::sweep_python(PythonPool<StartedBox>::Whose whose) {
  using Which = PythonPool<StartedBox>::Whose;
  while (auto old = python_pool_.take_old(whose)) {
    old->live->close(EndCause::Deleted, "nobody came for it");
  }
  cell_workers_.remove_if([&](const CellWorker& each) {
    if (!each.box.worker) return false;  // on its way
    const bool is_empty = each.box.worker->cell_count() == 0;
    const bool is_idle = std::chrono::steady_clock::now() - each.box.live->last_use() >
                         PythonPool<StartedBox>::kLife;
    const bool is_wanted = !each.key.empty() && each.box.worker->takes_cells();
    const bool is_done =
        each.box.worker->is_over() || whose == Which::All || (is_empty && (is_idle || !is_wanted));
    if (is_done) each.box.live->close(EndCause::Deleted, "its cells are gone");
    return is_done;
  });
}

Result<std::shared_ptr<PythonHost>> SessionManager::python(std::string_view id) {
  TRY(const EntryPointer entry, find(id));
  if (!entry->python) return fail(Code::NotFound, "session {} is no Python session", id);
  return entry->python;
}

// Runs, jobs and operations.
std::size_t SessionManager::under_way(const Entry& entry) {
  if (!entry.python) return entry.live->under_way();
  const std::size_t operations = entry.python->under_way();
  if (entry.is_cell) return operations;
  // The interpreter itself is a run, which is there from the start to the end.
  const std::size_t runs = entry.live->under_way();
  return operations + runs - std::min<std::size_t>(runs, 1);
}

bool SessionManager::is_in_use(const Entry& entry) {
  return under_way(entry) > 0 || (entry.python && entry.python->is_attached());
}

std::chrono::steady_clock::time_point SessionManager::last_use(const Entry& entry) {
  return entry.python ? entry.python->last_use() : entry.live->last_use();
}

}  // namespace glovebox::session
