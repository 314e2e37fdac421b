#include "guest/shell/process_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <unistd.h>

namespace glovebox::guest {
namespace {

TEST(ProcessTree, StatLineWithAnyName) {
  const std::string tail = " 20 0 1 0 12345 0 0";
  const ProcessInfo expected{7, 3, 5, 'S', 12345};
  for (const char* name : {"sh", "a b", ") R 1 1 1", "((", "x\ny"}) {
    const std::string line = "7 (" + std::string(name) + ") S 3 4 5 0 -1 0 1 2 3 4 5 6 7 8" + tail;
    EXPECT_EQ(parse_stat(line), expected) << line;
  }
}

TEST(ProcessTree, MalformedLinesAreNothing) {
  for (const char* line : {"", "7", "7 (x", "7 (x) S", "x (x) S 3 4 5", "7 (x) S a 4 5 0"}) {
    EXPECT_EQ(parse_stat(line), std::nullopt) << line;
  }
}

TEST(ProcessTree, DescendantsAtAnyDepthAndNoOthers) {
  const std::vector<ProcessInfo> all = {{1, 0, 1, 'S', 0}, {2, 1, 2, 'S', 0}, {3, 2, 2, 'S', 0},
                                        {4, 3, 2, 'S', 0}, {5, 1, 5, 'S', 0}, {6, 4, 6, 'S', 0}};
  std::vector<pid_t> pids;
  for (const ProcessInfo& process : descendants_of(2, all)) pids.push_back(process.pid);
  EXPECT_THAT(pids, ::testing::UnorderedElementsAre(3, 4, 6));
}

TEST(ProcessTree, ARingDoesNotHang) {
  EXPECT_EQ(descendants_of(1, {{2, 1, 1, 'S', 0}, {1, 2, 1, 'S', 0}}).size(), 1U);
}

TEST(ProcessTree, FindsThisProcess) {
  const auto all = list_processes();
  ASSERT_TRUE(all);
  const auto self = std::ranges::find(*all, ::getpid(), &ProcessInfo::pid);
  ASSERT_NE(self, all->end());
  EXPECT_EQ(self->parent, ::getppid());
  EXPECT_LE(self->start_ticks, ticks_now());
  EXPECT_GT(self->start_ticks + 60'000, ticks_now());
}

}  // namespace
}  // namespace glovebox::guest
