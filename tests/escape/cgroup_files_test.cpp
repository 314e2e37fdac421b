// Class 29: a writable cgroup filesystem: release_agent, moving out of the limits, freezing others.
// Tried: finding any cgroup file, mounting the filesystem, reading where the box is.
// Canary: the paths in /proc/self/cgroup tell nothing about the host.
#include "support/box_test.h"

namespace glovebox::test {
namespace {

class CgroupFiles : public BoxTest {};

TEST_P(CgroupFiles, NoCgroupFilesystemIsThere) {
  for (const char* path :
       {"/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified", "/cgroup"}) {
    EXPECT_THAT(probe({}, {"list", path}), ended_with(ENOENT)) << path;
  }
  const Outcome outcome = probe({}, {"read", "/proc/self/mountinfo"});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("cgroup")));
}

TEST_P(CgroupFiles, NoneCanBeMounted) {
  EXPECT_NE(run({}, {"/bin/mount", "-t", "cgroup2", "none", "/tmp"}).code, 0);
  EXPECT_NE(run({}, {"/bin/mount", "-t", "cgroup", "-o", "memory", "none", "/tmp"}).code, 0);
  EXPECT_THAT(probe({}, {"unshare", "cgroup"}), ended_with(EPERM));
}

TEST_P(CgroupFiles, OwnPlaceLooksLikeTheRoot) {
  const Outcome outcome = run({}, {"/bin/cat", "/proc/self/cgroup"});
  EXPECT_THAT(outcome, ended_with(0));
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_THAT(line, testing::EndsWith(":/")) << "the path of a cgroup outside";
  }
}

TEST_P(CgroupFiles, LimitsHoldAgainstTheBox) {
  ROOT_TIER_ONLY();
  NEEDS(Feature::MemoryCgroup);
  EXPECT_THAT(probe({"--memory", "48MiB"}, {"memory_hog", "heap", "16"}), ended_with(0));
  EXPECT_THAT(probe({"--memory", "48MiB"}, {"memory_hog", "heap", "400"}),
              ended_by_limit("memory"));
}

BOX_TEST_TIERS(CgroupFiles);

}  // namespace
}  // namespace glovebox::test
