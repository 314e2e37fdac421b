// Limits end a run with their name, are enforced for the whole box, and are refused where the host
// cannot enforce them.
#include "support/box_test.h"

namespace glovebox::test {
namespace {

class Limits : public BoxTest {
 protected:
  static double number_at(const Outcome& outcome, const char* part, const char* name) {
    return outcome.report.at(part).at(name).to_number<double>();
  }
};

TEST_P(Limits, WallTimeEndsASleeper) {
  const Outcome outcome = probe({"--wall", "300ms"}, {"sleep"});
  EXPECT_THAT(outcome, ended_by_limit("wall"));
  EXPECT_GE(outcome.took, std::chrono::milliseconds(300));
  EXPECT_LT(outcome.took, std::chrono::seconds(30));
}

TEST_P(Limits, WallTimeLeavesOthersAlone) {
  EXPECT_THAT(probe({"--wall", "20s"}, {"exit_code", "3"}), ended_with(3));
}

TEST_P(Limits, WallTimeEndsWhatIgnoresSignals) {
  const Outcome outcome =
      run({"--wall", "300ms"}, {"/bin/sh", "-c", "trap '' TERM INT HUP QUIT; while :; do :; done"});
  EXPECT_THAT(outcome, ended_by_limit("wall"));
}

TEST_P(Limits, OutputEndsAFlood) {
  const Outcome outcome = probe({"--output-limit", "64KiB"}, {"output_flood", "64"});
  EXPECT_THAT(outcome, ended_by_limit("output"));
  EXPECT_LE(outcome.out.size(), 64U * 1024);
  EXPECT_GE(outcome.out.size(), 60U * 1024) << "what fits is delivered";
}

TEST_P(Limits, OutputCountsBothStreams) {
  const Outcome outcome =
      run({"--output-limit", "1000"},
          {"/bin/sh", "-c", "head -c 600 /dev/zero; head -c 600 /dev/zero >&2"});
  EXPECT_THAT(outcome, ended_by_limit("output"));
}

TEST_P(Limits, OutputWithinItsLimitIsWhole) {
  const Outcome outcome =
      run({"--output-limit", "64KiB"}, {"/usr/bin/head", "-c", "65536", "/dev/zero"});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_EQ(outcome.out.size(), 65536U);
}

// What counts against the caller's user: a box gets a quarter, and the caller keeps the rest.
TEST_P(Limits, CountsOfTheCallersUserAreShared) {
  const long instances = std::stol(read_text("/proc/sys/user/max_inotify_instances"));
  const Outcome watching = probe({}, {"inotify_fill", "100000"});
  EXPECT_THAT(watching, ended_with(EMFILE));
  EXPECT_EQ(lines_after(watching.out, "made "), Words{std::to_string(instances / 4)});
  EXPECT_THAT(probe({}, {"inotify_share"}), ended_with(0));
  const Outcome signalling = probe({}, {"signal_fill", "200000"});
  EXPECT_THAT(signalling, ended_with(EAGAIN));
  const Words sent = lines_after(signalling.out, "sent ");
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_LT(std::stol(sent.front()), 50'000);
  EXPECT_GT(std::stol(sent.front()), 60);
}

// The same for watches. They are counted where the share is small enough to be filled.
TEST_P(Limits, WatchesOfTheCallersUserAreShared) {
  const long all = std::stol(read_text("/proc/sys/user/max_inotify_watches"));
  const Outcome told = run({}, {"/bin/cat", "/proc/sys/user/max_inotify_watches"});
  EXPECT_EQ(told.out, std::to_string(all / 4) + "\n");
  if (all / 4 > 400'000) return;
  const Outcome watching =
      probe({"--disk", "4GiB"}, {"watch_fill", "/tmp", std::to_string(all / 4 + 1)});
  EXPECT_THAT(watching, ended_with(ENOSPC));
  EXPECT_EQ(lines_after(watching.out, "watched "), Words{std::to_string(all / 4)});
}

TEST_P(Limits, ABoxAtItsCountsLeavesTheNextOneItsOwn) {
  Running full = start_probe({}, {"inotify_fill", "100000", "hold"});
  ASSERT_TRUE(full.wait_for("made "));
  EXPECT_THAT(probe({}, {"inotify_fill", "8"}), ended_with(0));
  kill(full);
  full.finish();
}

TEST_P(Limits, CountsOfTheNamespaceCannotBeRaised) {
  EXPECT_THAT(probe({}, {"write", "/proc/sys/user/max_inotify_instances", "100000"}),
              refused_with(Errnos{EACCES, EPERM, EROFS}));
}

// Root counts on a limit; where there are no cgroups it is told that there is none.
TEST_P(Limits, AMissingDefaultLimitOfMemoryIsSaid) {
  ROOT_TIER_ONLY();
  Settings settings;
  settings.wrapper = {"/usr/bin/unshare",
                      "--mount",
                      "/bin/sh",
                      "-c",
                      "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"",
                      "sh"};
  const Outcome outcome = run({}, {"true"}, settings);
  ASSERT_THAT(outcome, ended_with(0));
  EXPECT_THAT(outcome.err, testing::HasSubstr("not enforced here: limit.memory"));
  EXPECT_EQ(outcome.report.at("not_enforced").as_array().size(), 1U);
  const Outcome enforced = run({}, {"true"});
  EXPECT_THAT(enforced.err, testing::Not(testing::HasSubstr("not enforced")));
}

TEST_P(Limits, MemoryEndsAHog) {
  if (!as_root()) {
    EXPECT_THAT(probe({"--memory", "64MiB"}, {"memory_hog", "heap", "8"}),
                refused_to_start("--waive limit.memory"));
    EXPECT_THAT(
        probe({"--memory", "64MiB", "--waive", "limit.memory"}, {"memory_hog", "heap", "8"}),
        ended_with(0));
    return;
  }
  NEEDS(Feature::MemoryCgroup);
  EXPECT_THAT(probe({"--memory", "64MiB"}, {"memory_hog", "heap", "512"}),
              ended_by_limit("memory"));
  EXPECT_THAT(probe({"--memory", "64MiB"}, {"memory_hog", "heap", "16"}), ended_with(0));
}

TEST_P(Limits, PidsStopForks) {
  const Outcome outcome = probe({"--pids", "20"}, {"forks", "200"});
  EXPECT_THAT(outcome, testing::AnyOf(ended_with(EAGAIN), ended_by_limit("pids")));
  for (const std::string& count : lines_after(outcome.out, "forked ")) {
    EXPECT_LE(std::stoi(count), 20);
    EXPECT_GE(std::stoi(count), 15);
  }
  EXPECT_THAT(probe({"--pids", "20"}, {"forks", "10"}), ended_with(0));
}

TEST_P(Limits, PidsHoldByDefault) {
  const Outcome outcome = probe({}, {"forks", "3000"});
  EXPECT_THAT(outcome, testing::AnyOf(ended_with(EAGAIN), ended_by_limit("pids")));
}

TEST_P(Limits, CpuTimeEndsASpinner) {
  if (!as_root()) {
    EXPECT_THAT(probe({"--cpu-time", "1s"}, {"spin", "10"}),
                refused_to_start("--waive limit.cpu-time"));
    EXPECT_THAT(probe({"--cpu-time", "1s", "--waive", "limit.cpu-time"}, {"spin", "10"}),
                ended_with(0));
    return;
  }
  NEEDS(Feature::CpuAccounting);
  const Outcome outcome = probe({"--cpu-time", "500ms"}, {"spin", "0"});
  EXPECT_THAT(outcome, ended_by_limit("cpu"));
  EXPECT_GE(number_at(outcome, "usage", "cpu_us"), 400'000);
  EXPECT_THAT(probe({"--cpu-time", "5s"}, {"spin", "50"}), ended_with(0));
}

TEST_P(Limits, CpuTimeCountsAllProcessesTogether) {
  ROOT_TIER_ONLY();
  NEEDS(Feature::CpuAccounting);
  const std::string spin = probe_path() + " spin 0";
  const Outcome outcome = run({"--read", installation().probe_directory(), "--cpu-time", "800ms"},
                              {"/bin/sh", "-c", spin + " & " + spin + " & " + spin + " & wait"});
  EXPECT_THAT(outcome, ended_by_limit("cpu"));
}

TEST_P(Limits, CpusSlowABoxDown) {
  if (!as_root()) {
    EXPECT_THAT(probe({"--cpus", "0.5"}, {"spin", "10"}), refused_to_start("--waive limit.cpus"));
    return;
  }
  NEEDS(Feature::CpuCgroup);
  const Outcome outcome = probe({"--cpus", "0.25"}, {"spin", "1500"});
  EXPECT_THAT(outcome, ended_with(0));
  const double share =
      number_at(outcome, "usage", "cpu_us") / number_at(outcome, "usage", "wall_us");
  EXPECT_LT(share, 0.5) << "a quarter of a core was allowed";
}

TEST_P(Limits, OpenFilesAreBounded) {
  const Outcome outcome = probe({"--open-files", "50"}, {"open_files", "100"});
  EXPECT_THAT(outcome, ended_with(EMFILE));
  EXPECT_EQ(lines_after(outcome.out, "opened "), Words{"47"});
  EXPECT_THAT(probe({"--open-files", "50"}, {"open_files", "40"}), ended_with(0));
  EXPECT_THAT(probe({}, {"open_files", "5000"}), ended_with(EMFILE));
}

TEST_P(Limits, DiskIsBounded) {
  EXPECT_THAT(probe({"--disk", "8MiB"}, {"disk_fill", "/tmp/big", "64"}), ended_with(ENOSPC));
  EXPECT_THAT(probe({"--disk", "8MiB"}, {"disk_fill", "/home/box/big", "64"}), ended_with(ENOSPC));
  EXPECT_THAT(probe({"--disk", "8MiB"}, {"disk_fill", "/tmp/small", "4"}), ended_with(0));
}

TEST_P(Limits, ResourceLimitsAreSetAndCannotBeRaised) {
  const Outcome outcome = probe({}, {"rlimits"});
  ASSERT_THAT(outcome, ended_with(0));
  EXPECT_THAT(lines_after(outcome.out, "rlimit core "),
              testing::Contains(testing::AnyOf("0 0", "1 1")));
  EXPECT_EQ(lines_after(outcome.out, "rlimit nofile "), Words{"4096 4096"});
  EXPECT_THAT(probe({}, {"raise_rlimit"}), ended_with(EPERM));
}

TEST_P(Limits, AmountsThatAreNoneAreRefused) {
  const std::vector<Words> wrong{
      {"--memory", "-1"},
      {"--memory", "0"},
      {"--memory", "lots"},
      {"--memory", "1e99"},
      {"--memory", "99999999999999999999GiB"},
      {"--pids", "-5"},
      {"--pids", "0"},
      {"--pids", "1.5"},
      {"--wall", "-3s"},
      {"--wall", "0"},
      {"--wall", "soon"},
      {"--cpu-time", "-1s"},
      {"--cpus", "-1"},
      {"--cpus", "0"},
      {"--cpus", "nan"},
      {"--output-limit", "-1"},
      {"--open-files", "-1"},
      {"--open-files", "1"},
      {"--disk", "-8MiB"},
      {"--disk", "0"},
  };
  for (const Words& options : wrong) {
    EXPECT_THAT(probe(options, {"exit_code", "0"}), refused_to_start(""))
        << options[0] << " " << options[1];
  }
}

TEST_P(Limits, UnknownWaiversAreRefused) {
  EXPECT_THAT(probe({"--waive", "everything"}, {"exit_code", "0"}), refused_to_start("everything"));
  EXPECT_THAT(probe({"--waive", ""}, {"exit_code", "0"}), refused_to_start(""));
  EXPECT_THAT(probe({"--waive", "seccomp"}, {"exit_code", "0"}), refused_to_start("seccomp"));
}

BOX_TEST_TIERS(Limits);

}  // namespace
}  // namespace glovebox::test
