// Workers that hold cells, and which cell may go into which.
//
// A worker is for one owner, one box, one interpreter and one authority, to the last rule and
// budget of it: what a cell could find of another in the same process, it could have had itself.
// Whether it holds many cells or one in all its life is its interpreter's to say
// (python/host/cells.h). The loop's thread only.
#pragma once

#include "session/manager/started_box.h"
#include "session/python/python_plan.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace glovebox::session {

// What cells that share a worker have in common beside their owner. `box` is python_pool_key().
std::string cell_key(const std::string& box, const PythonPlan& plan);

class CellWorkers {
 public:
  using Pointer = std::shared_ptr<CellWorker>;

  // One that takes another cell, or that is on its way and may; nullptr if there is none. One that
  // is being ended, or that has had all its cells, takes none.
  Pointer find(const std::string& key, const std::string& owner) const;

  void add(Pointer worker) { workers_.push_back(std::move(worker)); }
  void remove(const Pointer& worker) { std::erase(workers_, worker); }
  // The box of this worker, which takes no more cells from here on; nullptr if it is not there.
  std::shared_ptr<BoxSession> take_out(const PythonWorker& worker);
  // Those for which it says so.
  void remove_if(const std::function<bool(const CellWorker&)>& is_done);

 private:
  std::vector<Pointer> workers_;
};

}  // namespace glovebox::session
