#include "workspace/layer/quota.h"

#include <gtest/gtest.h>

namespace glovebox::workspace {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

QuotaFacts user_host() {
  return {.memory_available = 8 * kGiB,
          .layer_filesystem_free = 100 * kGiB,
          .has_overlay_on_tmpfs = true};
}

QuotaFacts root_host() {
  QuotaFacts facts = user_host();
  facts.is_root = facts.has_loop_devices = facts.has_mkfs_ext4 = true;
  return facts;
}

TEST(Quota, WithoutALimitTheUpperIsADirectory) {
  EXPECT_EQ(choose_quota(user_host(), {})->backing, plan::LayerBacking::Directory);
}

TEST(Quota, ASmallLimitIsInMemoryForEverybody) {
  for (const QuotaFacts& facts : {user_host(), root_host()}) {
    const auto choice = choose_quota(facts, {.bytes = kMiB, .inodes = 5000});
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->backing, plan::LayerBacking::Memory);
    EXPECT_EQ(choice->bytes, kMiB);
    EXPECT_EQ(choice->inodes, 5000u);
  }
}

TEST(Quota, ALargeLimitIsAnImageForRoot) {
  const auto choice = choose_quota(root_host(), {.bytes = 20 * kGiB});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->backing, plan::LayerBacking::Image);
  EXPECT_EQ(choice->bytes, 20 * kGiB);
}

TEST(Quota, NoMoreIsPromisedThanThereIs) {
  const auto memory = choose_quota(user_host(), {.bytes = 20 * kGiB});
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->backing, plan::LayerBacking::Memory);
  EXPECT_EQ(memory->bytes, 2 * kGiB);
  const auto disk = choose_quota(root_host(), {.bytes = 200 * kGiB});
  ASSERT_TRUE(disk);
  EXPECT_EQ(disk->bytes, 100 * kGiB - 100 * kGiB / kDiskReserveShare);
}

TEST(Quota, WithoutLoopDevicesOrMkfsOrWithSeveralLayersRootUsesMemory) {
  QuotaFacts facts = root_host();
  facts.has_loop_devices = false;
  EXPECT_EQ(choose_quota(facts, {.bytes = kGiB})->backing, plan::LayerBacking::Memory);
  facts = root_host();
  facts.has_mkfs_ext4 = false;
  EXPECT_EQ(choose_quota(facts, {.bytes = kGiB})->backing, plan::LayerBacking::Memory);
  EXPECT_EQ(choose_quota(root_host(), {.bytes = kGiB, .layers = 2})->backing,
            plan::LayerBacking::Memory);
}

TEST(Quota, ALimitOnFilesAloneBoundsTheBytesToo) {
  const auto choice = choose_quota(user_host(), {.inodes = 10});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->inodes, 10u);
  EXPECT_EQ(choice->bytes, kUsualQuota);
}

TEST(Quota, WhatCannotBeKeptIsRefused) {
  QuotaFacts old = user_host();
  old.has_overlay_on_tmpfs = false;
  EXPECT_EQ(choose_quota(old, {.bytes = kMiB}).error().code, Code::Unsupported);
  QuotaFacts poor = user_host();
  poor.memory_available = 4 * kMiB;
  EXPECT_EQ(choose_quota(poor, {.bytes = kGiB}).error().code, Code::Unsupported);
  EXPECT_TRUE(choose_quota(poor, {.bytes = kMiB}));
}

}  // namespace
}  // namespace glovebox::workspace
