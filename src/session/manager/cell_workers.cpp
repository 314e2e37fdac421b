#include "session/manager/cell_workers.h"

#include "authority/terms.h"

#include <algorithm>

namespace glovebox::session {

std::string cell_key(const std::string& box, const PythonPlan& plan) {
  std::string key = box;
  for (const authority::Rule& rule : plan.authority.rules()) key += '\0' + to_text(rule);
  return key;
}

CellWorkers::Pointer CellWorkers::find(const std::string& key, const std::string& owner) const {
  // Of an interpreter that holds one cell nothing is waited for: it will be taken.
  const bool is_one_each = std::ranges::any_of(workers_, [&](const Pointer& each) {
    return each->key == key && each->box.worker && each->box.worker->holds_one();
  });
  const auto fits = [&](const Pointer& each) {
    if (key.empty() || each->key != key || each->owner != owner) return false;
    if (!each->box.worker) return !is_one_each;
    return each->box.worker->takes_cells() && each->box.live->is_alive();
  };
  const auto found = std::ranges::find_if(workers_, fits);
  return found == workers_.end() ? nullptr : *found;
}

std::shared_ptr<BoxSession> CellWorkers::take_out(const PythonWorker& worker) {
  const auto found = std::ranges::find_if(
      workers_, [&](const Pointer& each) { return each->box.worker.get() == &worker; });
  if (found == workers_.end()) return nullptr;
  auto box = (*found)->box.live;
  workers_.erase(found);
  return box;
}

void CellWorkers::remove_if(const std::function<bool(const CellWorker&)>& is_done) {
  std::erase_if(workers_, [&](const Pointer& each) { return is_done(*each); });
}

}  // namespace glovebox::session
