// Many boxes, good and bad, leave the host as it was. The fixture looks after every test; here the
// looking itself is tested, and the count is large.
#include "base/unique_fd.h"
#include "support/box_test.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

class Leftover : public BoxTest {
 protected:
  static std::vector<std::string> left(const Snapshot& before) {
    return left_since(before, Clock::now() + std::chrono::seconds(5));
  }
};

TEST_P(Leftover, FiftyBoxesInARow) {
  const Snapshot before = take_snapshot();
  for (int i = 0; i < 50; ++i) ASSERT_THAT(run({}, {"true"}), ended_with(0)) << i;
  EXPECT_EQ(left(before), Words{});
}

// A process that inherits orphans, as the first process of a container does, gets none.
TEST_P(Leftover, NobodyElseHasToReapABox) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  // Without a report: it is then that a run is over soonest.
  EXPECT_THAT(glovebox({"run", "--", "true"}), ended_with(0));
  EXPECT_THAT(glovebox({"run", "--", "/bin/sh", "-c", "sleep 1000 & exit 3"}), ended_with(3));
  EXPECT_EQ(glovebox({"run", "--wall", "50ms", "--", "/bin/sleep", "1000"}).code, 124);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process of a box was left to be reaped";
  EXPECT_EQ(errno, ECHILD);
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

TEST_P(Leftover, BoxesThatFailInEveryWay) {
  const std::string work = make_tree("work");
  const Snapshot before = take_snapshot();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(run({}, {"no-such-command"}).code, 127);
    EXPECT_EQ(run({"-w", work + ":rw", "--cwd", "/no/such/place"}, {"true"}).code, 125);
    EXPECT_EQ(run({"--wall", "50ms", "-w", work + ":rw"}, {"/bin/sleep", "1000"}).code, 124);
    EXPECT_EQ(run({}, {"/bin/sh", "-c", "kill -9 $$"}).code, 137);
  }
  EXPECT_EQ(left(before), Words{});
}

TEST_P(Leftover, BoxesKilledWhileTheyStart) {
  const Snapshot before = take_snapshot();
  for (int delay_us = 0; delay_us < 20'000; delay_us += 500) {
    Running box = start({"--wall", "20s"}, {"/bin/sleep", "1000"});
    // Not synchronisation: the moment of the kill is what varies from turn to turn.
    usleep(static_cast<useconds_t>(delay_us));
    kill(box);
    box.finish();
  }
  for (const pid_t pid : box_processes()) {
    EXPECT_TRUE(ends_before(open_pidfd(pid), Clock::now() + std::chrono::seconds(5)));
  }
  EXPECT_THAT(run({}, {"true"}), ended_with(0)) << "it removes what the killed ones left";
  EXPECT_EQ(left(before), Words{});
}

TEST_P(Leftover, ConcurrentBoxesDoNotDisturbEachOther) {
  const Snapshot before = take_snapshot();
  std::vector<Running> boxes;
  for (int i = 0; i < 12; ++i) boxes.push_back(start_probe({}, {"await_signal", "15"}));
  for (Running& box : boxes) ASSERT_TRUE(box.wait_for("ready"));
  for (Running& box : boxes) {
    box.signal(SIGTERM);
    EXPECT_EQ(box.finish().code, 40 + 15);
  }
  EXPECT_EQ(left(before), Words{});
}

TEST_P(Leftover, OnlyTheDeadLoseTheirCgroups) {
  // A box that starts removes what killed ones left, and nothing of one that lives.
  Running living = start_probe({"--pids", "20"}, {"await_signal", "15"});
  ASSERT_TRUE(living.wait_for("ready"));
  EXPECT_THAT(run({}, {"true"}), ended_with(0));
  living.signal(SIGTERM);
  EXPECT_THAT(living.finish(), ended_with(40 + SIGTERM));
}

TEST_P(Leftover, AnotherProcessWithTheNumberOfADeadOneKeepsNothing) {
  ROOT_TIER_ONLY();
  NEEDS(Feature::PidsCgroup);
  // Named for this process as it is, and for one that had its number before.
  std::ifstream file("/proc/self/stat");
  const std::string stat((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  const Words words{std::istream_iterator<std::string>(fields), {}};
  const std::string parent = "/sys/fs/cgroup/pids/glovebox-" + std::to_string(getpid()) + "-";
  const std::string living = parent + words.at(19) + "-1";
  const std::string dead = parent + "1-1";
  std::filesystem::create_directory(living);
  std::filesystem::create_directory(dead);
  EXPECT_THAT(run({"--pids", "20"}, {"true"}), ended_with(0));
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_TRUE(std::filesystem::exists(living));
  rmdir(living.c_str());
}

// Its number means nothing here, and another user's process may have it.
TEST_P(Leftover, ALauncherOfAnotherPidNamespaceKeepsItsCgroups) {
  ROOT_TIER_ONLY();
  NEEDS(Feature::PidsCgroup);
  const std::string path = "/sys/fs/cgroup/pids/glovebox-" + std::to_string(getpid()) + "-1-1";
  std::filesystem::create_directory(path);
  UniqueFd held(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_SH), 0);
  EXPECT_THAT(run({"--pids", "20"}, {"true"}), ended_with(0));
  EXPECT_TRUE(std::filesystem::exists(path));
  held.reset();
  EXPECT_THAT(run({"--pids", "20"}, {"true"}), ended_with(0));
  EXPECT_FALSE(std::filesystem::exists(path));
}

// What a launcher does for that: the cgroup of a box that runs is held.
TEST_P(Leftover, ABoxThatRunsHoldsItsCgroup) {
  ROOT_TIER_ONLY();
  NEEDS(Feature::PidsCgroup);
  Running box = start_probe({"--pids", "20"}, {"await_signal", "15"});
  ASSERT_TRUE(box.wait_for("ready"));
  const std::string prefix = "glovebox-" + std::to_string(box.pid()) + "-";
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/fs/cgroup/pids")) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    const UniqueFd fd(::open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_EQ(::flock(fd.get(), LOCK_EX | LOCK_NB), -1) << entry.path();
    ++found;
  }
  EXPECT_EQ(found, 1);
  box.signal(SIGTERM);
  EXPECT_THAT(box.finish(), ended_with(40 + SIGTERM));
}

TEST_P(Leftover, TheLookingSeesAFile) {
  const Snapshot before = take_snapshot();
  const std::string path = "/tmp/glovebox-left-" + std::to_string(getpid());
  write_text(path, "x");
  EXPECT_EQ(left_since(before, Clock::now()), Words{"file " + path});
  std::filesystem::remove(path);
}

TEST_P(Leftover, TheLookingSeesAProcess) {
  const Snapshot before = take_snapshot();
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  EXPECT_THAT(left_since(before, Clock::now()),
              testing::ElementsAre(testing::StartsWith("process " + std::to_string(child))));
  ::kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_P(Leftover, TheLookingSeesACgroup) {
  ROOT_TIER_ONLY();
  NEEDS(Feature::PidsCgroup);
  const Snapshot before = take_snapshot();
  const std::string path = "/sys/fs/cgroup/pids/glovebox-left-" + std::to_string(getpid());
  std::filesystem::create_directory(path);
  EXPECT_EQ(left_since(before, Clock::now()), Words{"cgroup " + path});
  rmdir(path.c_str());
}

BOX_TEST_TIERS(Leftover);

}  // namespace
}  // namespace glovebox::test
