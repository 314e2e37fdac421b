#include "session/manager/python_cells.h"

#include "async/co_try.h"
#include "base/uuid.h"
#include "plan/make_plan.h"
#include "session/manager/ending_cell.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cerrno>

namespace glovebox::session {
namespace {

// How many interpreters are started ahead at a time: they compete with those that a request waits
// for.
constexpr std::size_t kMaxStarting = 2;
// How long after a session began the next interpreter is started: the first operation of the one
// has the machine to itself meanwhile.
constexpr std::chrono::milliseconds kAheadPause{30};
// How many workers are tried for one cell when they end before it has begun.
constexpr int kMostWorkersTried = 3;
constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);

std::optional<launch::LimitKind> limit_of(std::string_view reason) {
  if (reason == "cpu") return launch::LimitKind::Cpu;
  if (reason == "wall") return launch::LimitKind::Wall;
  if (reason == "memory") return launch::LimitKind::Memory;
  if (reason == "output") return launch::LimitKind::Output;
  return std::nullopt;
}

}  // namespace

asio::awaitable<Result<StartedBox>> PythonCells::start(std::shared_ptr<Prepared> prepared,
                                                       const SessionOrigin& origin) {
  const std::optional<std::string> key = python_pool_key(*prepared);
  if (prepared->python->backend == Backend::Cell) {
    co_return co_await make_cell(prepared, key, origin);
  }
  StartedBox started;
  if (!origin.shell) started = take_parked(key, origin);
  if (!started.live) {
    CO_TRY(started, co_await starter_.start_interpreter(prepared, origin));
  }
  CO_TRY_VOID(open_channel(started, *prepared->python));
  keep_stock(*prepared, key);
  co_return started;
}

// A box with an interpreter that was made ahead, or nothing. It takes the name of a session that is
// there, if it is for one.
StartedBox PythonCells::take_parked(const std::optional<std::string>& key,
                                    const SessionOrigin& origin) {
  while (key) {
    auto ready = parked_.take(*key);
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

// More of the kind that was just taken, if it is one that can be made ahead.
void PythonCells::keep_stock(const Prepared& prepared, const std::optional<std::string>& key) {
  if (!key) return;
  auto more = std::make_shared<Prepared>();
  more->plan = prepared.plan;
  more->home = prepared.home;
  more->python = prepared.python;
  more->effective.prove = prepared.effective.prove;  // what is asked of this one holds for them
  common_.tasks.spawn(make_ahead(*key, std::move(more)));
}

// Keeps up the stock of one kind. What fails here fails again for a request that waits for it, and
// is answered there.
asio::awaitable<void> PythonCells::make_ahead(std::string key, std::shared_ptr<Prepared> prepared) {
  asio::steady_timer pause(common_.loop, kAheadPause);
  (void)co_await pause.async_wait(kAsTuple);  // if it is cancelled the next wait throws
  while (!common_.is_stopping && parked_.wants(key) && starting_ < kMaxStarting) {
    // However the start ends, also by cancellation.
    struct Starting {
      std::size_t& count;
      explicit Starting(std::size_t& all) : count(all) { ++count; }
      ~Starting() { --count; }
    };
    std::optional<Starting> starting(starting_);
    const SessionOrigin fresh;
    auto made = co_await starter_.start_interpreter(prepared, fresh);
    starting.reset();
    if (!made) co_return;
    if (common_.is_stopping) {
      made->live->close(EndCause::ServiceEnded, "the service has ended");
      co_return;
    }
    // Another may have been made for the same kind meanwhile.
    if (!parked_.wants(key)) {
      made->live->close(EndCause::Deleted, "nobody came for it");
      co_return;
    }
    auto spare = parked_.put(key, *std::move(made));
    if (spare) spare->live->close(EndCause::Deleted, "nobody came for it");
  }
}

Result<void> PythonCells::open_channel(StartedBox& started, const PythonPlan& plan) {
  if (!started.python) {
    started.python = std::make_shared<PythonHost>(common_.loop, started.worker, 0);
  }
  const std::weak_ptr<PythonCells> weak = weak_from_this();
  PythonCallbacks callbacks;
  callbacks.on_end = [weak, id = started.id,
                      host = std::weak_ptr(started.python)](const PythonEnd& end) {
    const auto self = weak.lock();
    if (!self) return;
    const auto cell = host.lock();
    if (cell && cell->plan().backend == Backend::Cell) self->leave_worker(*cell, end);
    self->on_python_end(id, end);
  };
  callbacks.on_worker_lost = [weak, id = started.id] {
    const auto self = weak.lock();
    return self && self->reseat(id);
  };
  callbacks.on_denial = [weak, id = started.id](const PythonDenial& denial) {
    if (const auto self = weak.lock()) self->tell_denied(id, denial);
  };
  return started.python->begin(plan, std::move(callbacks));
}

void PythonCells::tell_denied(const std::string& id, const PythonDenial& denial) {
  const EntryPointer entry = registry_.find_or_null(id);
  if (!entry) return;
  std::string text = fmt::format("{}: no grant of {}", denial.action, denial.capability);
  if (denial.times > 1) text += fmt::format(", {} times", denial.times);
  registry_.tell(EventKind::Denied, *entry, std::move(text),
                 {denial.capability, denial.action, denial.rule});
}

void PythonCells::on_python_end(const std::string& id, const PythonEnd& end) {
  const EntryPointer entry = registry_.find_or_null(id);
  if (!entry || !entry->live) return;
  const auto limit = limit_of(end.reason);
  const bool is_wanted = end.reason == "closed";
  const EndCause cause = limit       ? EndCause::Limit
                         : is_wanted ? EndCause::Deleted
                                     : EndCause::AgentGone;
  if (!entry->is_cell) return entry->live->end_for(cause, limit, end.sentence);
  on_end_(id, SessionEnd{cause, limit, end.sentence, std::chrono::system_clock::now()});
}

void PythonCells::sweep(Whose whose) {
  while (auto old = parked_.take_old(whose)) {
    old->live->close(EndCause::Deleted, "nobody came for it");
  }
  workers_.remove_if([&](const CellWorker& each) {
    if (!each.box.worker) return false;  // on its way
    const bool is_empty = each.box.worker->cell_count() == 0;
    const bool is_idle = std::chrono::steady_clock::now() - each.box.live->last_use() >
                         PythonPool<StartedBox>::kLife;
    const bool is_wanted = !each.key.empty() && each.box.worker->takes_cells();
    const bool is_done =
        each.box.worker->is_over() || whose == Whose::All || (is_empty && (is_idle || !is_wanted));
    if (is_done) each.box.live->close(EndCause::Deleted, "its cells are gone");
    return is_done;
  });
}

// One that is there, or on its way, before another is made: when a worker is killed, all of its
// cells come here at the same moment.
asio::awaitable<Result<std::shared_ptr<CellWorker>>> PythonCells::find_worker(
    std::shared_ptr<Prepared> prepared, std::optional<std::string> key) {
  const std::string owner = owner_of(prepared->effective);
  const std::string kind = key ? cell_key(*key, *prepared->python) : "";
  while (const auto found = workers_.find(kind, owner)) {
    if (found->box.worker) co_return found;
    CO_TRY(const auto turn, co_await found->start->take(WhenBusy::Wait));
    if (found->problem) co_return unexpected(*found->problem);
  }
  auto worker = std::make_shared<CellWorker>();
  worker->key = kind;
  worker->owner = owner;
  worker->start = std::make_shared<Semaphore>(common_.loop, 1, "a worker for cells");
  co_return co_await make_worker(std::move(prepared), std::move(key), std::move(worker));
}

asio::awaitable<Result<std::shared_ptr<CellWorker>>> PythonCells::make_worker(
    std::shared_ptr<Prepared> prepared, std::optional<std::string> key,
    std::shared_ptr<CellWorker> worker) {
  CO_TRY(const auto turn, co_await worker->start->take(WhenBusy::Refuse));  // it is free
  workers_.add(worker);
  // However this ends: no cell is to wait for a worker that will never be there. It may end with
  // the loop, after this object.
  struct Care {
    std::weak_ptr<PythonCells> cells;
    std::shared_ptr<CellWorker> worker;
    ~Care() {
      if (worker->box.worker) return;
      if (!worker->problem) worker->problem = Error{Code::Os, ECANCELED, "its start was given up"};
      if (const auto self = cells.lock()) self->workers_.remove(worker);
    }
  };
  const Care care{weak_from_this(), worker};
  const SessionOrigin fresh;
  worker->box = take_parked(key, fresh);
  if (worker->box.worker) co_return worker;
  auto made = co_await starter_.start_interpreter(prepared, fresh);
  if (made) {
    worker->box = *std::move(made);
    co_return worker;
  }
  worker->problem = made.error();
  co_return unexpected(std::move(made).error());
}

// A worker can have ended although that is not known yet: a cell is there when the worker says so.
asio::awaitable<Result<StartedBox>> PythonCells::make_cell(std::shared_ptr<Prepared> prepared,
                                                           std::optional<std::string> key,
                                                           const SessionOrigin& origin) {
  std::string id = origin.id;
  if (id.empty()) {
    CO_TRY(id, make_uuid());
  }
  for (int tried = 1;; ++tried) {
    CO_TRY(const std::shared_ptr<CellWorker> worker, co_await find_worker(prepared, key));
    StartedBox started;
    started.plan = worker->box.plan;
    started.live = worker->box.live;
    started.worker = worker->box.worker;
    started.proved = worker->box.proved;
    started.id = id;
    started.python =
        std::make_shared<PythonHost>(common_.loop, started.worker, started.worker->next_cell());
    auto begun = open_channel(started, *prepared->python);
    if (begun) begun = co_await started.python->await_open();
    if (begun) {
      if (started.worker->holds_one()) keep_stock(*prepared, key);
      co_return started;
    }
    started.python->close({"worker", begun.error().message});
    const bool is_workers_fault = started.worker->is_over() || started.worker->is_retired();
    if (!is_workers_fault || tried == kMostWorkersTried) {
      co_return unexpected(std::move(begun).error());
    }
  }
}

// A cell that is over is told to end, and a worker that is for one ends with it.
void PythonCells::leave_worker(const PythonHost& host, const PythonEnd& end) {
  const auto& worker = host.worker();
  if (worker->holds_one()) {
    if (const auto box = workers_.take_out(*worker)) {
      box->close(EndCause::Deleted, "its cell has ended");
    }
    return;
  }
  // One that crashed has ended already.
  if (worker->is_over() || end.reason == "crash") return;
  end_cell(common_.loop, worker, host.number());
}

// A cell whose worker was killed because of another begins anew.
bool PythonCells::reseat(const std::string& id) {
  const EntryPointer entry = registry_.find_or_null(id);
  if (!entry || common_.is_stopping || entry->is_being_removed) return false;
  common_.tasks.spawn(reseat_cell(id));
  return true;
}

asio::awaitable<void> PythonCells::reseat_cell(std::string id) {
  // Later: this begins while the worker tells all of its cells.
  co_await asio::post(common_.loop, asio::use_awaitable);
  const EntryPointer entry = registry_.find_or_null(id);
  if (!entry) co_return;
  auto prepared = std::make_shared<Prepared>();
  prepared->plan = *entry->plan;
  prepared->effective = entry->record.info.effective;
  prepared->python = entry->python->plan();
  prepared->home = home_of(entry->record.info);
  std::optional<std::string> key = python_pool_key(*prepared);
  auto worker = co_await find_worker(prepared, std::move(key));
  if (entry->python->is_over()) co_return;
  if (!worker) co_return entry->python->close({"worker", worker.error().message});
  entry->live = (*worker)->box.live;
  entry->plan = (*worker)->box.plan;
  const auto begun =
      entry->python->restart((*worker)->box.worker, (*worker)->box.worker->next_cell());
  if (!begun) entry->python->close({"worker", begun.error().message});
}

}  // namespace glovebox::session
