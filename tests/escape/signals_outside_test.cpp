// Class 13: signals to processes of the same user outside.
// Tried: SIGKILL, SIGSTOP and signal 0 to a victim by its pid outside, to every pid at once, and to
// the process group; then to PID 1 of the box.
// Canary: the victim, which is the same user as glovebox's caller, lives and is not stopped.
#include "support/box_test.h"

#include <fstream>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

class SignalsOutside : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    if (IsSkipped()) return;
    Launch launch;
    launch.argv = {"/bin/sleep", "1000"};
    launch.ids = caller();
    victim_ = std::make_unique<Process>(launch);
  }
  void TearDown() override {
    if (victim_) {
      EXPECT_FALSE(victim_->wait(Clock::now()).has_value()) << "the victim was ended";
      std::ifstream status("/proc/" + std::to_string(victim_->pid()) + "/status");
      for (std::string line; std::getline(status, line);) {
        if (line.starts_with("State:")) {
          EXPECT_THAT(line, testing::Not(testing::HasSubstr("stopped")));
        }
      }
      victim_.reset();
    }
    BoxTest::TearDown();
  }
  std::string victim() const { return std::to_string(victim_->pid()); }

 private:
  std::unique_ptr<Process> victim_;
};

TEST_P(SignalsOutside, VictimHasNoPidInTheBox) {
  for (const char* number : {"0", "9", "19"}) {
    EXPECT_THAT(probe({}, {"kill", victim(), number}), ended_with(ESRCH)) << number;
    EXPECT_THAT(probe({}, {"kill", "-" + victim(), number}), ended_with(ESRCH)) << number;
  }
}

TEST_P(SignalsOutside, EverybodyMeansEverybodyInTheBox) {
  const Outcome outcome = run({}, {"/bin/sh", "-c", "sleep 1000 & kill -9 -1; kill -9 $$; exit 3"});
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_EQ(outcome.code, 128 + SIGKILL);
}

TEST_P(SignalsOutside, InitIgnoresThem) {
  const std::string words = probe_path() + " kill 1 9; " + probe_path() + " kill 1 19; exit 21";
  EXPECT_THAT(run({"--read", installation().probe_directory()}, {"/bin/sh", "-c", words}),
              ended_with(21));
}

TEST_P(SignalsOutside, OwnChildrenCanBeSignalled) {
  EXPECT_THAT(run({}, {"/bin/sh", "-c", "sleep 1000 & kill -9 $!; wait $!; test $? = 137"}),
              ended_with(0));
}

BOX_TEST_TIERS(SignalsOutside);

}  // namespace
}  // namespace glovebox::test
