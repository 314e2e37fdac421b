#include "launch/child/helper.h"

#include "launch/child/sys.h"

#include <linux/futex.h>
#include <sched.h>

namespace glovebox::launch {
namespace {

struct Start {
  Helper* helper;
  HelperWork work;
};
static_assert(sizeof(Start) <= 16);

int run_helper(void* argument) noexcept {
  const Start start = *static_cast<const Start*>(argument);
  start.work(start.helper);
  sys::raw(SYS_exit, 0);
  return 0;
}

}  // namespace

bool start_helper(Helper& helper, HelperWork work) noexcept {
  constexpr int kThread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                          CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
  helper.thread_id = 1;
  helper.error = 0;
  // Lies at the upper end of the thread's own stack, which outlives this call.
  auto* start = reinterpret_cast<Start*>(helper.stack + sizeof(helper.stack) - sizeof(Start));
  *start = {&helper, work};
  helper.running =
      ::clone(run_helper, start, kThread, start, nullptr, nullptr, &helper.thread_id) > 0;
  return helper.running;
}

bool await_helper(Helper& helper) noexcept {
  if (!helper.running) {
    errno = EINVAL;
    return false;
  }
  while (const std::uint32_t id = __atomic_load_n(&helper.thread_id, __ATOMIC_ACQUIRE)) {
    sys::raw(SYS_futex, sys::address(&helper.thread_id), FUTEX_WAIT, static_cast<long>(id), 0);
  }
  helper.running = false;
  if (helper.error == 0) return true;
  errno = helper.error;
  return false;
}

}  // namespace glovebox::launch
