// Cells: Python sessions in a worker, alone in it or with others of the same owner and authority.
#include "async/co_try.h"
#include "base/uuid.h"
#include "plan/make_plan.h"
#include "session/manager/session_manager.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include <cerrno>

namespace glovebox::session {
namespace {

// How long a cell may take to end before its worker is killed, and the others begin anew; and after
// which time no other begins in that worker.
constexpr std::chrono::milliseconds kCellGrace{3000};
constexpr std::chrono::milliseconds kCellDoubt{200};
// How many workers are tried for one cell when they end before it has begun.
constexpr int kMostWorkersTried = 3;

// Listens for the end of a cell that was told to end.
class EndingCell final : public PythonCell, public std::enable_shared_from_this<EndingCell> {
 public:
  EndingCell(asio::io_context& loop, std::shared_ptr<PythonWorker> worker, std::uint32_t number)
      : worker_(std::move(worker)), number_(number), timer_(loop) {}

  void begin() {
    worker_->add(number_, weak_from_this());
    // A worker that has ended has no cells.
    (void)worker_->send(PythonOrder::End, number_, {});
    timer_.expires_after(kCellDoubt);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& problem) {
      if (!problem && !self->is_gone_) self->doubt();
    });
  }

  void take(PythonWord word, PythonMessage /*message*/, Result<PythonHead> /*head*/) override {
    if (word != PythonWord::Over) return;
    worker_->remove(number_);
    leave();
  }
  void take_stray(std::string_view /*text*/) override {}
  bool is_busy() const override { return true; }  // finalizers are code of its own
  void worker_over(const PythonExit& /*exit*/) override { leave(); }

 private:
  void leave() {
    is_gone_ = true;
    timer_.cancel();
  }

  // Who begins now should not begin in a worker that may be killed soon.
  void doubt() {
    worker_->retire();
    timer_.expires_after(kCellGrace - kCellDoubt);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& problem) {
      if (problem || self->is_gone_) return;
      self->worker_->blame(self->number_);
      self->worker_->kill();
    });
  }

  std::shared_ptr<PythonWorker> worker_;
  std::uint32_t number_;
  asio::steady_timer timer_;
  bool is_gone_ = false;
};

}  // namespace

// One that is there, or on its way, before another is made: when a worker is killed, all of its
// cells come here at the same moment.
asio::awaitable<Result<std::shared_ptr<CellWorker>>> SessionManager::find_cell_worker(
    std::shared_ptr<Prepared> prepared, std::optional<std::string> key) {
  const std::string owner = owner_of(prepared->effective);
  const std::string kind = key ? cell_key(*key, *prepared->python) : "";
  while (const auto found = cell_workers_.find(kind, owner)) {
    if (found->box.worker) co_return found;
    CO_TRY(const auto turn, co_await found->start->take(WhenBusy::Wait));
    if (found->problem) co_return unexpected(*found->problem);
  }
  auto worker = std::make_shared<CellWorker>();
  worker->key = kind;
  worker->owner = owner;
  worker->start = std::make_shared<Semaphore>(loop_, 1, "a worker for cells");
  CO_TRY(const auto turn, co_await worker->start->take(WhenBusy::Refuse));  // it is free
  cell_workers_.add(worker);
  // However this ends: no cell is to wait for a worker that will never be there.
  struct Care {
    SessionManager& manager;
    std::weak_ptr<bool> there;
    std::shared_ptr<CellWorker> worker;
    ~Care() {
      if (worker->box.worker) return;
      if (!worker->problem) worker->problem = Error{Code::Os, ECANCELED, "its start was given up"};
      if (!there.expired()) manager.cell_workers_.remove(worker);
    }
  };
  const Care care{*this, is_there_, worker};
  const Origin fresh;
  worker->box = take_parked(key, fresh);
  if (worker->box.worker) co_return worker;
  auto made = co_await make_interpreter(prepared, fresh);
  if (made) {
    worker->box = *std::move(made);
    co_return worker;
  }
  worker->problem = made.error();
  co_return unexpected(std::move(made).error());
}

// A worker can have ended although that is not known yet: a cell is there when the worker says so.
asio::awaitable<Result<StartedBox>> SessionManager::make_cell(std::shared_ptr<Prepared> prepared,
                                                              std::optional<std::string> key,
                                                              const Origin& origin) {
  std::string id = origin.id;
  if (id.empty()) {
    CO_TRY(id, make_uuid());
  }
  for (int tried = 1;; ++tried) {
    CO_TRY(const std::shared_ptr<CellWorker> worker, co_await find_cell_worker(prepared, key));
    StartedBox started;
    started.plan = worker->box.plan;
    started.live = worker->box.live;
    started.worker = worker->box.worker;
    started.proved = worker->box.proved;
    started.id = id;
    started.python =
        std::make_shared<PythonHost>(loop_, started.worker, started.worker->next_cell());
    auto begun = begin_python(started, *prepared->python);
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
void SessionManager::leave_worker(const PythonHost& host, const PythonEnd& end) {
  const auto& worker = host.worker();
  if (worker->holds_one()) {
    if (const auto box = cell_workers_.take_out(*worker)) {
      box->close(EndCause::Deleted, "its cell has ended");
    }
    return;
  }
  // One that crashed has ended already.
  if (worker->is_over() || end.reason == "crash") return;
  std::make_shared<EndingCell>(loop_, worker, host.number())->begin();
}

void SessionManager::end_cell(const EntryPointer& entry, const PythonEnd& end) {
  entry->python->close(end);  // on_python_end() does the rest
}

// A cell whose worker was killed because of another begins anew. Later: this is called while the
// worker tells all of its cells, and co_spawn() alone would begin at once.
bool SessionManager::reseat(const std::string& id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || is_stopping_ || found->second->is_being_removed) return false;
  asio::post(loop_, [this, there = std::weak_ptr<bool>(is_there_), id] {
    if (!there.expired()) asio::co_spawn(loop_, reseat_cell(*this, there, id), asio::detached);
  });
  return true;
}

asio::awaitable<void> SessionManager::reseat_cell(SessionManager& manager,
                                                  std::weak_ptr<bool> there, std::string id) {
  const auto found = manager.sessions_.find(id);
  if (there.expired() || found == manager.sessions_.end()) co_return;
  const EntryPointer entry = found->second;
  auto prepared = std::make_shared<Prepared>();
  prepared->plan = *entry->plan;
  prepared->effective = entry->record.info.effective;
  prepared->python = entry->python->plan();
  prepared->home = entry->record.info.workspaces.empty()
                       ? std::string(plan::kHomeInside)
                       : entry->record.info.workspaces.front().path;
  std::optional<std::string> key = python_pool_key(*prepared);
  auto worker = co_await manager.find_cell_worker(prepared, std::move(key));
  if (there.expired() || entry->python->is_over()) co_return;
  if (!worker) co_return entry->python->close({"worker", worker.error().message});
  entry->live = (*worker)->box.live;
  entry->plan = (*worker)->box.plan;
  const auto begun =
      entry->python->restart((*worker)->box.worker, (*worker)->box.worker->next_cell());
  if (!begun) entry->python->close({"worker", begun.error().message});
}

}  // namespace glovebox::session
