// Room on the disk: of layers, of bodies on their way, and of what background runs print.
#include "session/state/spool_quota.h"

#include "session/box/background.h"
#include "session/store/layer_usage.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::session {
namespace {

TEST(LayerUsage, WhatIsTakenCountsAtOnce) {
  LayerUsage use(100);
  EXPECT_TRUE(use.take(60));
  EXPECT_EQ(use.take(60).error().code, Code::Exhausted);
  EXPECT_EQ(use.bytes(), 60u) << "what was refused is not counted";
  EXPECT_TRUE(use.take(40));
  EXPECT_TRUE(use.is_full());
  EXPECT_FALSE(use.take(1)) << "no room is not no bound";
}

TEST(LayerUsage, AMeasureReplacesWhatWasTakenBeforeIt) {
  LayerUsage use(1000);
  EXPECT_FALSE(use.is_measured());
  ASSERT_TRUE(use.take(100));
  const LayerUsage::Mark mark = use.begin_measure();
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

TEST(LayerUsage, AnOldMeasureDoesNotReplaceALaterOne) {
  LayerUsage use(0);
  const LayerUsage::Mark old = use.begin_measure();
  ASSERT_TRUE(use.take(70));
  use.end_measure(use.begin_measure(), 90);
  use.end_measure(old, 10);
  EXPECT_EQ(use.bytes(), 90u);
  EXPECT_TRUE(use.take(std::uint64_t{1} << 60)) << "without a bound everything fits";
  EXPECT_FALSE(use.is_full());
}

TEST(SpoolQuota, ManyShareItAndGiveItBack) {
  const auto room = std::make_shared<SpoolQuota>(100);
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
  SpoolShare without_bound(std::make_shared<SpoolQuota>(0));
  EXPECT_TRUE(without_bound.take(std::uint64_t{1} << 60));
}

std::shared_ptr<Spool> make_spool(std::size_t bytes) {
  auto spool = Spool::open("/tmp");
  EXPECT_TRUE(spool) << spool.error().message;
  EXPECT_TRUE(spool->append(std::string(bytes, 'x')));
  return std::make_shared<Spool>(*std::move(spool));
}

TEST(Spools, WhatWasDroppedIsSkippedAndTheRestHasItsPosition) {
  const auto spool = make_spool(1000);
  EXPECT_EQ(spool->held(), 1000u);
  spool->drop();
  EXPECT_EQ(spool->held(), 0u);
  EXPECT_EQ(spool->size(), 1000u);
  EXPECT_EQ(spool->read(0, 10)->skipped, 1000u);
  ASSERT_TRUE(spool->append("more"));
  const auto log = spool->read(0, 10);
  EXPECT_EQ(log->bytes, "more");
  EXPECT_EQ(log->next, 1004u);
  EXPECT_EQ(spool->growth(10), 10u);
  EXPECT_EQ(make_spool(Spool::kCapacity + 5)->growth(10), 0u) << "it is full";
}

TEST(Spools, TheOneThatEndedFirstMakesRoom) {
  const WallTime now = std::chrono::system_clock::now();
  const auto first = make_spool(Spool::kCapacity);
  const auto second = make_spool(Spool::kCapacity);
  const auto third = make_spool(Spool::kCapacity);
  const auto running = make_spool(Spool::kCapacity);
  first->finish(now - std::chrono::hours(2));
  second->finish(now - std::chrono::hours(1));
  third->finish(now);
  SpoolShelf older;
  older.add(third);
  older.add(first);
  SpoolShelf shelf;
  shelf.add(running);
  shelf.add(second);
  shelf.add_all(older);
  shelf.make_room(0);
  EXPECT_GT(first->held(), 0u) << "there was room";
  shelf.make_room(1);
  EXPECT_EQ(first->held(), 0u);
  EXPECT_GT(second->held(), 0u);
  shelf.make_room(3 * Spool::kCapacity);
  EXPECT_EQ(third->held(), 0u);
  EXPECT_GT(running->held(), 0u);
}

TEST(Spools, WhereAllRunTheLargestMakesRoom) {
  const auto large = make_spool(Spool::kCapacity);
  const auto small = make_spool(1000);
  SpoolShelf shelf;
  shelf.add(small);
  shelf.add(large);
  shelf.make_room(kMostSpooled - 2000);
  EXPECT_EQ(large->held(), 0u);
  EXPECT_EQ(small->held(), 1000u);
}

}  // namespace
}  // namespace glovebox::session
