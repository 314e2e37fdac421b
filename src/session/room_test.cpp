// Room on the disk: of layers, and of bodies on their way.
#include "session/layer_use.h"
#include "session/spool_room.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

namespace glovebox::session {
namespace {

TEST(LayerUse, WhatIsTakenCountsAtOnce) {
  LayerUse use(100);
  EXPECT_TRUE(use.take(60));
  EXPECT_EQ(use.take(60).error().code, Code::Exhausted);
  EXPECT_EQ(use.bytes(), 60u) << "what was refused is not counted";
  EXPECT_TRUE(use.take(40));
  EXPECT_TRUE(use.is_full());
  EXPECT_FALSE(use.take(1)) << "no room is not no bound";
}

TEST(LayerUse, AMeasureReplacesWhatWasTakenBeforeIt) {
  LayerUse use(1000);
  EXPECT_FALSE(use.is_measured());
  ASSERT_TRUE(use.take(100));
  const LayerUse::Mark mark = use.begin_measure();
  ASSERT_TRUE(use.take(50)) << "written while somebody measures";
  use.end_measure(mark, 120);
  EXPECT_TRUE(use.is_measured());
  EXPECT_EQ(use.bytes(), 170u);
  use.end_measure(use.begin_measure(), 150);
  EXPECT_EQ(use.bytes(), 150u);
  use.end_measure(use.begin_measure(), 2000);
  EXPECT_TRUE(use.is_full());
  EXPECT_FALSE(use.take(1)) << "beyond the bound there is no room either";
}

TEST(LayerUse, AnOldMeasureDoesNotReplaceALaterOne) {
  LayerUse use(0);
  const LayerUse::Mark old = use.begin_measure();
  ASSERT_TRUE(use.take(70));
  use.end_measure(use.begin_measure(), 90);
  use.end_measure(old, 10);
  EXPECT_EQ(use.bytes(), 90u);
  EXPECT_TRUE(use.take(std::uint64_t{1} << 60)) << "without a bound everything fits";
  EXPECT_FALSE(use.is_full());
}

TEST(SpoolRoom, ManyShareItAndGiveItBack) {
  const auto room = std::make_shared<SpoolRoom>(100);
  std::optional<SpoolShare> one(room);
  SpoolShare other(room);
  ASSERT_TRUE(one->take(60));
  const auto refused = other.take(50);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().os_errno, ENOSPC);
  SpoolShare moved = std::move(*one);
  one.reset();
  EXPECT_FALSE(other.take(50)) << "it went along";
  moved = SpoolShare();
  EXPECT_TRUE(other.take(100));
  SpoolShare without_bound(std::make_shared<SpoolRoom>(0));
  EXPECT_TRUE(without_bound.take(std::uint64_t{1} << 60));
}

}  // namespace
}  // namespace glovebox::session
