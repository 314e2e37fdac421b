#include "launch/box.h"

#include "base/pidfd.h"

#include <csignal>

namespace glovebox::launch {

void Box::kill() const {
  // A box that has ended already is no failure; one that cannot be signalled this way is not reaped
  // yet either, so its pid is still its own.
  if (init && !kill_process(init)) (void)::kill(pid, SIGKILL);
}

void Box::kill_and_reap() const {
  if (!init) return;
  kill();
  (void)reap_process(init);
}

}  // namespace glovebox::launch
