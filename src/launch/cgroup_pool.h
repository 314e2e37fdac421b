// Cgroups made ahead of need, for a serving launcher.
//
// Each is used by one box and removed with it. The pool follows the last plan: cgroups for other
// controllers or limits are made when asked for.
#pragma once

#include "base/result.h"
#include "launch/cgroup.h"
#include "plan/flat_plan.h"

#include <cstdint>
#include <vector>

namespace glovebox::launch {

class CgroupPool {
 public:
  static constexpr std::size_t kTarget = 6;

  // A pooled cgroup if one fits the plan. From here on the pool is kept for plans like this one.
  std::optional<Cgroup> take(const plan::PlanView& plan);

  // What the pool would like to have more of, as a plan to make it from; nullptr when it is full.
  const plan::PlanView* wanted() const;
  void add(Cgroup cgroup) { ready_.push_back(std::move(cgroup)); }

 private:
  std::vector<std::byte> bytes_;  // the plan that wanted() shows
  std::optional<plan::PlanView> plan_;
  std::vector<Cgroup> ready_;
};

}  // namespace glovebox::launch
