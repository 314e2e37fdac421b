// Boxes on their way to be sessions, as the Manager passes them on; no business of anybody else.
#pragma once

#include "async/semaphore.h"
#include "session/box/running_box.h"
#include "session/python/python_host.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::session {

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
