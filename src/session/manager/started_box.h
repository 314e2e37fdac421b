// Boxes on their way to be sessions, as the parts of the manager pass them on.
#pragma once

#include "async/semaphore.h"
#include "session/box/running_box.h"
#include "session/prepare/prepare.h"
#include "session/python/python_host.h"
#include "session/state/shell_state.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::session {

// What a session begins with beside its request.
struct SessionOrigin {
  std::string id{};      // empty: a new one
  std::string parent{};  // the session it was forked from
  LayerSources layers{};
  std::optional<ShellState> shell{};
  std::uint64_t runs_before = 0;
  std::string policy_digest{};              // that the policy must have; empty: any
  std::optional<KnownPlaces> known{};       // of a request that was prepared before
  std::function<Result<void>()> recheck{};  // on the loop, before it is entered; may be empty
};

// A box on its way to be a session.
struct StartedBox {
  std::string id;
  // Whom the box tells of: the same; another only until it is handed to a session that is there.
  std::shared_ptr<std::string> whose;
  std::shared_ptr<const plan::LaunchPlan> plan;
  std::shared_ptr<BoxSession> live;
  std::shared_ptr<RunningBox> running;
  std::vector<std::string> proved;
  std::shared_ptr<PythonWorker> worker;  // of a Python session, ready
  std::shared_ptr<PythonHost> python;
};

// A box with an interpreter for cells (cell_workers.h).
struct CellWorker {
  std::string key;
  std::string owner;
  StartedBox box;                    // empty while it is on its way
  std::shared_ptr<Semaphore> start;  // who makes the box has the turn, and who wants it waits
  std::optional<Error> problem;      // why it did not come
};

}  // namespace glovebox::session
