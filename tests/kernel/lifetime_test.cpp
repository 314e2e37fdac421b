// A box lives as long as its command, its launcher and its caller, whichever is shortest.
#include "support/box_test.h"

#include <fstream>

#include <signal.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

constexpr std::chrono::seconds kEndTime{10};

class Lifetime : public BoxTest {
 protected:
  // Descriptors for everything that runs below the test now, to watch it end.
  static std::vector<UniqueFd> watch_all() {
    std::vector<UniqueFd> watched;
    for (const pid_t pid : box_processes()) watched.push_back(open_pidfd(pid));
    return watched;
  }
  static void expect_all_end(const std::vector<UniqueFd>& watched) {
    const auto deadline = Clock::now() + kEndTime;
    for (const UniqueFd& pidfd : watched) {
      if (pidfd) {
        EXPECT_TRUE(ends_before(pidfd, deadline)) << "a process outlived the box";
      }
    }
  }
  // The pid outside of the box's PID 1.
  static pid_t find_init() {
    for (const pid_t pid : box_processes()) {
      std::ifstream file("/proc/" + std::to_string(pid) + "/status");
      for (std::string line; std::getline(file, line);) {
        if (line.starts_with("NSpid:") && line.ends_with("\t1")) return pid;
      }
    }
    return -1;
  }
};

// A shell that stays as glovebox's parent.
const Words kShellParent{"/bin/sh", "-c", "\"$@\"; exit $?", "sh"};

TEST_P(Lifetime, SignalsReachTheCommand) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    Running box = start_probe({}, {"await_signal", std::to_string(number)});
    ASSERT_TRUE(box.wait_for("ready"));
    box.signal(number);
    EXPECT_THAT(box.finish(), ended_with(40 + number)) << number;
  }
}

TEST_P(Lifetime, SignalThatKillsTheCommandIsReported) {
  Running box = start_probe({}, {"sleep"});
  ASSERT_TRUE(box.wait_for("ready"));
  box.signal(SIGTERM);
  const Outcome outcome = box.finish();
  EXPECT_THAT(outcome, ended_with(128 + SIGTERM));
  EXPECT_EQ(outcome.reason(), "signaled");
}

TEST_P(Lifetime, KilledLauncherTakesTheBoxAlong) {
  Running box = start_probe({}, {"stay_with_orphan"});
  ASSERT_TRUE(box.wait_for("ready"));
  const auto watched = watch_all();
  EXPECT_GE(watched.size(), 3U) << "glovebox, the command and its daemon";
  kill(box);
  expect_all_end(watched);
  EXPECT_EQ(box.finish().code, 128 + SIGKILL);
}

TEST_P(Lifetime, EveryProcessOutsideTakesTheBoxAlongWhenKilled) {
  Running counter = start_probe({}, {"sleep"});
  ASSERT_TRUE(counter.wait_for("ready"));
  const std::size_t count = box_processes().size();
  kill(counter);
  counter.finish();
  ASSERT_TRUE(left_since(take_snapshot(), Clock::now() + kEndTime).empty());
  for (std::size_t victim = 0; victim < count; ++victim) {
    Running box = start_probe({}, {"stay_with_orphan"});
    ASSERT_TRUE(box.wait_for("ready"));
    const auto watched = watch_all();
    const std::vector<pid_t> pids = box_processes();
    ASSERT_LT(victim, pids.size());
    glovebox_will_be_killed();
    ASSERT_EQ(::kill(pids[victim], SIGKILL), 0);
    expect_all_end(watched);
    EXPECT_NE(box.finish().code, 0);
  }
}

TEST_P(Lifetime, KilledParentTakesTheBoxAlong) {
  Settings settings;
  settings.wrapper = kShellParent;
  Running box = start_probe({}, {"stay_with_orphan"}, settings);
  ASSERT_TRUE(box.wait_for("ready"));
  const auto watched = watch_all();
  EXPECT_GE(watched.size(), 4U) << "the shell, glovebox, the command and its daemon";
  kill(box);
  expect_all_end(watched);
  box.finish();
}

TEST_P(Lifetime, ParentThatLeftEndsTheBoxToo) {
  // The parent is gone by an ordinary exit, while the box runs in the background.
  Settings settings;
  settings.wrapper = {"/bin/sh", "-c", "\"$@\" & read line", "sh"};
  Running box = start_probe({}, {"sleep"}, settings);
  ASSERT_TRUE(box.wait_for("ready"));
  const auto watched = watch_all();
  glovebox_will_be_killed();
  box.type("leave\n");
  expect_all_end(watched);
  box.finish();
}

TEST_P(Lifetime, BoxMayOutliveItsParentWhenAsked) {
  const std::string work = make_directory("work");
  Settings settings;
  settings.wrapper = {"/bin/sh", "-c", "\"$@\" <&3 & wait", "sh"};
  const Pipe input = make_pipe();
  // dash gives background jobs /dev/null as input, so the line comes over descriptor 3.
  settings.wrapper[2] = "\"$@\" <&" + std::to_string(input.read_end.get()) + " & wait";
  settings.kept = {input.read_end.get()};
  Running box = start_probe({"--outlive-parent", "--workspace", work + ":rw"},
                            {"make_after_line", work + "/proof"}, settings);
  ASSERT_TRUE(box.wait_for("ready"));
  const std::vector<UniqueFd> watched = watch_all();
  kill(box);
  ASSERT_EQ(write(input.write_end.get(), "go\n", 3), 3);
  expect_all_end(watched);
  box.finish();
  EXPECT_EQ(access((work + "/proof").c_str(), F_OK), 0) << "the box ended with its parent";
}

TEST_P(Lifetime, InitCannotBeKilledFromInside) {
  for (const char* number : {"9", "15", "11", "19", "2"}) {
    const Outcome outcome =
        run({"--read", installation().probe_directory()},
            {"/bin/sh", "-c", probe_path() + " kill 1 " + number + "; exit 33"});
    EXPECT_THAT(outcome, ended_with(33)) << number;
  }
}

TEST_P(Lifetime, KillingEverybodyInsideEndsOnlyTheBox) {
  const Outcome outcome = run({}, {"/bin/sh", "-c", "kill -9 -1; kill -9 $$"});
  EXPECT_THAT(outcome, ended_with(128 + SIGKILL));
}

TEST_P(Lifetime, InitKilledFromOutsideEndsTheBox) {
  Running box = start_probe({}, {"stay_with_orphan"});
  ASSERT_TRUE(box.wait_for("ready"));
  const pid_t init = find_init();
  ASSERT_GT(init, 0);
  const auto watched = watch_all();
  ASSERT_EQ(::kill(init, SIGKILL), 0);
  expect_all_end(watched);
  const Outcome outcome = box.finish();
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_NE(outcome.code, 0);
}

TEST_P(Lifetime, OrphansEndWithTheCommand) {
  const Outcome outcome = probe({}, {"orphan"});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_LT(outcome.took, std::chrono::seconds(30));
  EXPECT_EQ(box_processes().size(), 0U);
}

TEST_P(Lifetime, BackgroundJobsDoNotHoldTheBoxOpen) {
  const Outcome outcome = run({}, {"/bin/sh", "-c", "sleep 1000 & echo done"});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_EQ(outcome.out, "done\n");
  EXPECT_LT(outcome.took, std::chrono::seconds(30));
}

TEST_P(Lifetime, ZombiesAreReaped) {
  // A child that outlives its parent ends under init; init must collect it.
  const Outcome outcome =
      run({}, {"/bin/sh", "-c",
               "for i in 1 2 3 4 5 6 7 8; do (true & ) ; done; "
               "for i in $(seq 1 200); do grep -l '^State:.Z' /proc/[0-9]*/status >/dev/null 2>&1 "
               "|| exit 0; done; exit 1"});
  EXPECT_THAT(outcome, ended_with(0));
}

TEST_P(Lifetime, StoppedCommandCanStillBeKilled) {
  Running box = start({}, {"/bin/sh", "-c", "echo ready; kill -STOP $$; echo never"});
  ASSERT_TRUE(box.wait_for("ready"));
  const auto watched = watch_all();
  kill(box);
  expect_all_end(watched);
  EXPECT_THAT(box.finish().out, testing::Not(testing::HasSubstr("never")));
}

BOX_TEST_TIERS(Lifetime);

}  // namespace
}  // namespace glovebox::test
