// Class 30: fork bombs, thread bombs and zombies.
// Tried: each, with a small and with the default limit.
// Canary: the host can still fork, and the box is gone afterwards.
#include "support/box_test.h"

#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

class ProcessBombs : public BoxTest {
 protected:
  static bool host_can_fork() {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    return child > 0 && waitpid(child, nullptr, 0) == child;
  }
};

TEST_P(ProcessBombs, ForkBombIsHeldAndEnded) {
  Settings settings;
  settings.patience = std::chrono::seconds(18);
  const Outcome outcome = probe({"--pids", "40", "--wall", "3s"}, {"fork_bomb"}, settings);
  EXPECT_THAT(outcome, testing::AnyOf(ended_by_limit("pids"), ended_by_limit("wall")));
  if (as_root()) {
    EXPECT_EQ(outcome.limit(), "pids") << "the reason has its own name";
  }
  EXPECT_TRUE(host_can_fork());
}

TEST_P(ProcessBombs, BombDoesNotReachTheHost) {
  Running box = start_probe({"--pids", "40", "--wall", "3s"}, {"fork_bomb"});
  ASSERT_TRUE(box.wait_for("bomb"));
  EXPECT_TRUE(host_can_fork());
  EXPECT_LE(box_processes().size(), 50U);
  EXPECT_FALSE(box.finish().timed_out);
}

TEST_P(ProcessBombs, ThreadsCountToo) {
  const Outcome outcome = probe({"--pids", "40"}, {"thread_bomb", "1000"});
  EXPECT_THAT(outcome, testing::AnyOf(ended_with(EAGAIN), ended_by_limit("pids")));
  EXPECT_THAT(probe({"--pids", "40"}, {"thread_bomb", "10"}), ended_with(0));
}

TEST_P(ProcessBombs, ZombiesCountToo) {
  const Outcome outcome = probe({"--pids", "40"}, {"zombies", "1000"});
  EXPECT_THAT(outcome, testing::AnyOf(ended_with(EAGAIN), ended_by_limit("pids")));
}

TEST_P(ProcessBombs, OneBoxDoesNotUseUpAnothers) {
  Running first = start_probe({"--pids", "30"}, {"stay_with_orphan"});
  ASSERT_TRUE(first.wait_for("ready"));
  EXPECT_THAT(probe({"--pids", "30"}, {"forks", "20"}), ended_with(0));
  kill(first);
  first.finish();
}

BOX_TEST_TIERS(ProcessBombs);

}  // namespace
}  // namespace glovebox::test
