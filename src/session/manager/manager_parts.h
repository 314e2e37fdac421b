// The parts of a SessionManager, in the order in which they know each other (README.md): each knows
// those above it. What a later one has to be told comes by callbacks, which are wired here.
#pragma once

#include "session/manager/box_starter.h"
#include "session/manager/layer_keeper.h"
#include "session/manager/manager_common.h"
#include "session/manager/python_cells.h"
#include "session/manager/session_registry.h"
#include "session/manager/sweeper.h"

#include <boost/asio/thread_pool.hpp>

#include <memory>

namespace glovebox::session {

struct ManagerParts {
  ManagerParts(asio::io_context& loop, ManagerSettings settings);
  ManagerParts(const ManagerParts&) = delete;
  ManagerParts& operator=(const ManagerParts&) = delete;
  // Waits for what the parts have started, and writes down what runs there were.
  ~ManagerParts();

  // SessionManager::open().
  Result<void> open();

  UniqueFd lock;  // on the state directory
  ManagerCommon common;
  SessionRegistry registry;
  LayerKeeper layers;
  BoxStarter boxes;
  std::shared_ptr<PythonCells> python;
  Sweeper sweeper;
  asio::thread_pool restore_pool{1};  // reading a checkpoint holds up nothing but its like
};

}  // namespace glovebox::session
