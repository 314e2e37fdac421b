#include "workspace/layer/base.h"

#include <gtest/gtest.h>

namespace glovebox::workspace {
namespace {

constexpr std::int64_t kStart = 1'000'000'500'000'000;
constexpr std::int64_t kBefore = kStart - 1'000'000'001;
constexpr std::int64_t kAfter = kStart + 7;

Node directory(std::uint64_t inode, std::int64_t changed) {
  return {.type = NodeType::Directory, .device = 1, .inode = inode, .changed = changed};
}
Node file(std::int64_t changed, std::uint64_t inode = 9) {
  return {.type = NodeType::File, .device = 1, .inode = inode, .changed = changed};
}

Base base_with(StampTrust trust = StampTrust::Inode) {
  Base base;
  base.stamp.start = kStart;
  base.device = 1;
  base.inode = 2;
  base.trust = trust;
  return base;
}

TEST(BaseDirectory, AnotherRootIsRefused) {
  const Base base = base_with();
  EXPECT_TRUE(BaseDirectory::root(base, directory(2, kAfter)));
  EXPECT_FALSE(BaseDirectory::root(base, directory(3, kBefore)));
}

TEST(BaseDirectory, AFileIsUnchangedByItsCtime) {
  const Base base = base_with();
  const auto root = BaseDirectory::root(base, directory(2, kAfter)).value();
  EXPECT_TRUE(root.is_unchanged("f", file(kBefore)));
  EXPECT_FALSE(root.is_unchanged("f", file(kAfter)));
  EXPECT_FALSE(root.is_unchanged("f", file(kStart)));  // the start's own tick
}

TEST(BaseDirectory, AStampWithoutAFractionMayBeTwoSecondsOld) {
  const Base base = base_with();
  const auto root = BaseDirectory::root(base, directory(2, kBefore)).value();
  const std::int64_t second = kStart / 1'000'000'000 * 1'000'000'000;
  EXPECT_FALSE(root.is_unchanged("f", file(second - 1'000'000'000)));
  EXPECT_TRUE(root.is_unchanged("f", file(second - 3'000'000'000)));
}

TEST(BaseDirectory, ADirectoryIsTheSameUnlessItAndItsParentChanged) {
  const Base base = base_with();
  const auto quiet = BaseDirectory::root(base, directory(2, kBefore)).value();
  const auto busy = BaseDirectory::root(base, directory(2, kAfter)).value();
  EXPECT_TRUE(quiet.child("d", directory(5, kAfter)).is_same());
  EXPECT_TRUE(busy.child("d", directory(5, kBefore)).is_same());
  EXPECT_FALSE(busy.child("d", directory(5, kAfter)).is_same());
  // Below a doubtful directory even old files may have come with it.
  EXPECT_FALSE(busy.child("d", directory(5, kAfter)).is_unchanged("d/f", file(kBefore)));
}

TEST(BaseDirectory, WhatIsKnownSettlesIt) {
  Base base = base_with();
  base.known["d"] = {.inode = 5, .changed = kAfter};
  base.known["d/f"] = {.inode = 9, .changed = kAfter};
  const auto busy = BaseDirectory::root(base, directory(2, kAfter)).value();
  EXPECT_TRUE(busy.child("d", directory(5, kAfter + 1)).is_same());
  EXPECT_FALSE(busy.child("d", directory(6, kAfter + 1)).is_same());
  const auto below = busy.child("d", directory(5, kAfter));
  EXPECT_TRUE(below.has_same_names());
  EXPECT_TRUE(below.is_unchanged("d/f", file(kAfter)));
  EXPECT_FALSE(below.is_unchanged("d/f", file(kAfter + 1)));
  EXPECT_FALSE(below.is_unchanged("d/f", file(kAfter, 10)));
}

TEST(BaseDirectory, WithoutTrustTheDirectoryMustBeOldToo) {
  const Base base = base_with(StampTrust::InodeAndName);
  const auto busy = BaseDirectory::root(base, directory(2, kAfter)).value();
  const auto quiet = BaseDirectory::root(base, directory(2, kBefore)).value();
  EXPECT_FALSE(busy.is_unchanged("f", file(kBefore)));
  EXPECT_TRUE(quiet.is_unchanged("f", file(kBefore)));
  EXPECT_FALSE(busy.child("d", directory(5, kBefore)).is_same());
}

TEST(StartStamp, SeesAClockThatWasSetBack) {
  const StartStamp start{.start = kStart, .clock_minus_boot = 5'000'000'000, .boot_id = "b"};
  StartStamp end = start;
  end.start += 60'000'000'000;
  EXPECT_FALSE(was_set_back(start, end));
  end.clock_minus_boot -= 2'000'000'000;
  EXPECT_TRUE(was_set_back(start, end));
  end.boot_id = std::string("other");
  EXPECT_FALSE(was_set_back(start, end));
  end = start;
  end.start -= 1;
  EXPECT_TRUE(was_set_back(start, end));
}

}  // namespace
}  // namespace glovebox::workspace
