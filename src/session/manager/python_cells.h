// Python sessions: boxes with an interpreter in them, made ahead of need, and cells, which are
// Python sessions in a worker, alone in it or with others of the same owner and authority.
//
// The end of an interpreter is told to the callback as the end of its session; the channel of a
// session (PythonHost) may outlive this, and then tells no one. The loop's thread only.
#pragma once

#include "session/manager/box_starter.h"
#include "session/manager/cell_workers.h"
#include "session/manager/manager_common.h"
#include "session/manager/python_pool.h"
#include "session/manager/session_registry.h"
#include "session/manager/started_box.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace glovebox::session {

class PythonCells : public std::enable_shared_from_this<PythonCells> {
 public:
  using Whose = PythonPool<StartedBox>::Whose;
  // The session of a cell has ended, although its box has not.
  using OnEnd = std::function<void(const std::string& id, const SessionEnd& end)>;

  PythonCells(ManagerCommon& common, SessionRegistry& registry, BoxStarter& starter, OnEnd on_end)
      : common_(common), registry_(registry), starter_(starter), on_end_(std::move(on_end)) {}

  // A box with an interpreter, or a cell, with its channel.
  asio::awaitable<Result<StartedBox>> start(std::shared_ptr<Prepared> prepared,
                                            const SessionOrigin& origin);
  // The interpreter is gone or went too far: so does its box, unless others live in it.
  void on_python_end(const std::string& id, const PythonEnd& end);
  // Ends boxes that were made ahead and not wanted, and workers without cells; with Whose::All,
  // all of them.
  void sweep(Whose whose);

 private:
  asio::awaitable<Result<StartedBox>> make_cell(std::shared_ptr<Prepared> prepared,
                                                std::optional<std::string> key,
                                                const SessionOrigin& origin);
  asio::awaitable<Result<std::shared_ptr<CellWorker>>> find_worker(
      std::shared_ptr<Prepared> prepared, std::optional<std::string> key);
  asio::awaitable<Result<std::shared_ptr<CellWorker>>> make_worker(
      std::shared_ptr<Prepared> prepared, std::optional<std::string> key,
      std::shared_ptr<CellWorker> worker);
  StartedBox take_parked(const std::optional<std::string>& key, const SessionOrigin& origin);
  void keep_stock(const Prepared& prepared, const std::optional<std::string>& key);
  asio::awaitable<void> make_ahead(std::string key, std::shared_ptr<Prepared> prepared);
  Result<void> open_channel(StartedBox& started, const PythonPlan& plan);
  void leave_worker(const PythonHost& host, const PythonEnd& end);
  void tell_denied(const std::string& id, const PythonDenial& denial);
  bool reseat(const std::string& id);
  asio::awaitable<void> reseat_cell(std::string id);

  ManagerCommon& common_;
  SessionRegistry& registry_;
  BoxStarter& starter_;
  OnEnd on_end_;
  PythonPool<StartedBox> parked_;
  std::size_t starting_ = 0;  // ahead of need
  CellWorkers workers_;
};

}  // namespace glovebox::session
