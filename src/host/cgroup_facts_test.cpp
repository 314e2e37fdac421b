#include "host/cgroup_facts.h"

#include <gtest/gtest.h>

namespace glovebox::host {
namespace {

TEST(OwnCgroups, ReadsBothLayouts) {
  const auto own = parse_own_cgroups("5:cpu,cpuacct:/box\n4:memory:/a/b\n0::/user.slice\n");
  ASSERT_TRUE(own);
  EXPECT_EQ(own->find("cpu")->second, "/box");
  EXPECT_EQ(own->find("cpuacct")->second, "/box");
  EXPECT_EQ(own->find("memory")->second, "/a/b");
  EXPECT_EQ(own->find("")->second, "/user.slice");
}

TEST(OwnCgroups, RefusesWhatTheKernelDoesNotWrite) {
  EXPECT_FALSE(parse_own_cgroups("nonsense"));
  EXPECT_FALSE(parse_own_cgroups("4:memory"));
  EXPECT_FALSE(parse_own_cgroups("4:memory:relative"));
  EXPECT_TRUE(parse_own_cgroups("")->empty());
}

TEST(CgroupFacts, NoControllersComeWithAReason) {
  const auto facts = read_cgroup_facts();
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->parents.empty(), !facts->why_not.empty());
}

}  // namespace
}  // namespace glovebox::host
