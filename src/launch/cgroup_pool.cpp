#include "launch/cgroup_pool.h"

namespace glovebox::launch {
std::optional<Cgroup> CgroupPool::take(const plan::PlanView& plan) {
  if (!plan_ || !plan_->has_same_cgroup(plan)) {
    ready_.clear();
    plan_.reset();
    bytes_ = plan.common_part();
    if (auto copy = plan::PlanView::decode(bytes_)) plan_ = *copy;
    return std::nullopt;
  }
  if (ready_.empty()) return std::nullopt;
  Cgroup cgroup = std::move(ready_.back());
  ready_.pop_back();
  return cgroup;
}

const plan::PlanView* CgroupPool::wanted() const {
  return plan_ && ready_.size() < kTarget ? &*plan_ : nullptr;
}

}  // namespace glovebox::launch
