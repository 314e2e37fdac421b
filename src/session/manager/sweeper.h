// What a SessionManager does by itself from time to time: it writes down what runs there were, ends
// sessions that are idle for too long, forgets the dead ones that are too old or too many, keeps
// the bound on all layers, and tries again to remove what could not be removed.
//
// The loop's thread only.
#pragma once

#include "session/manager/layer_keeper.h"
#include "session/manager/manager_common.h"
#include "session/manager/python_cells.h"
#include "session/manager/session_registry.h"

#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <utility>
#include <vector>

namespace glovebox::session {

class Sweeper {
 public:
  // Removes a session that has expired.
  using Remove = std::function<asio::awaitable<void>(EntryPointer entry, LayerFate fate)>;

  Sweeper(ManagerCommon& common, SessionRegistry& registry, LayerKeeper& layers,
          PythonCells& python, Remove remove)
      : common_(common),
        registry_(registry),
        layers_(layers),
        python_(python),
        remove_(std::move(remove)),
        timer_(common.loop) {}

  // From now on, as a task of the manager.
  void start();
  // No other sweep begins; one that is under way goes on.
  void stop() { timer_.cancel(); }

 private:
  asio::awaitable<void> keep_sweeping();
  asio::awaitable<void> sweep();
  // Idle ones; and of the dead, those that are too old or too many.
  std::vector<EntryPointer> expired() const;
  void forget_more(std::vector<EntryPointer> dead, std::vector<EntryPointer>& found) const;

  ManagerCommon& common_;
  SessionRegistry& registry_;
  LayerKeeper& layers_;
  PythonCells& python_;
  Remove remove_;
  asio::steady_timer timer_;
};

}  // namespace glovebox::session
