#include "launch/cgroup_pool.h"

namespace glovebox::launch {
namespace {

// Everything that a cgroup depends on.
std::string key_of(const plan::PlanView& plan) {
  const plan::FlatHeader& h = plan.header();
  std::string key =
      fmt::format("{} {} {} {}", h.cgroup_version, h.memory_bytes, h.pids, h.cpus_milli);
  for (const plan::FlatController& controller : plan.controllers()) {
    key += fmt::format("\n{} {}", plan.text(controller.name), plan.text(controller.parent));
  }
  return key;
}

}  // namespace

std::optional<Cgroup> CgroupPool::take(const plan::PlanView& plan) {
  std::string key = key_of(plan);
  if (key != key_) {
    ready_.clear();
    plan_.reset();
    bytes_.assign(plan.bytes().begin(), plan.bytes().end());
    if (auto copy = plan::PlanView::decode(bytes_)) plan_ = *copy;
    key_ = std::move(key);
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
